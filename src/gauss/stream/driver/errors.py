"""Describes errors of Java and Py4J in one sentence; the trace stays in the log."""

from __future__ import annotations

import re

from gauss.model.errors import GaussError, errors_in_trace

_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[([A-Z0-9_.]+)\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_JAVA = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)
_REFUSED = {
    "without watermark": (
        "it groups records (GROUP BY, DISTINCT, an aggregate) without a window, and a stream has no end at which a"
        " group would be complete",
        "use the window or aggregator processor, or dedup for DISTINCT; in a function: withWatermark",
    ),
    "NON_TIME_WINDOW": (
        "a window function (OVER) needs all records at once, and a stream has no end",
        "use the window or aggregator processor",
    ),
    "Sorting is not supported": (
        "it sorts records (ORDER BY), and a stream has no end",
        "sort where the result is read",
    ),
    "Offset is not supported": ("OFFSET has no meaning in a stream", "leave it out"),
    "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY": (
        "a subquery can't read the stream a second time",
        "use the join or window-join processor",
    ),
}
"""Part of Spark's message for an operation that streams do not support → the reason and the fix."""
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
"""The messages of ENOSPC and EDQUOT, as Python, Java and database servers report them."""
_NOISE = re.compile(r"STREAM_FAILED|PYTHON_STREAMING_DATA_SOURCE|PYTHON_DATA_SOURCE_ERROR|Job aborted|Writing job")


def sentence(error: BaseException | str) -> str:
    """The innermost cause that has a message, on one line."""
    if isinstance(error, GaussError):
        return _line(error.message)
    text = str(error)
    if own := errors_in_trace(text):
        return _line(own[-1].message)
    if refused := refusal(text):
        return f"{refused[0]}; {refused[1]}"
    if "Python worker exited unexpectedly" in text:
        return "its worker process died: the transform ended it, or it was killed or ran out of memory"
    for pattern in (_PYTHON, _CONDITION, _JAVA):
        causes = [match for match in pattern.findall(text) if not _NOISE.search(" ".join(match))]
        if causes:
            kind, message = causes[-1]
            return _line(message if pattern is _CONDITION else f"{message} ({kind.rsplit('.', 1)[-1]})")
    return _line(text) or "Spark gave no reason"


def is_transient(error: BaseException | str) -> bool:
    """Whether the same work may succeed later without any change: a server is unavailable, or a disk is full."""
    if isinstance(error, GaussError):
        return error.retryable
    text = str(error)
    return any(each.retryable for each in errors_in_trace(text)) or any(part in text for part in _NO_SPACE)


def refusal(error: BaseException | str) -> tuple[str, str] | None:
    """Why Spark does not support the operation on a stream, and what to do instead; None for any other error."""
    text = str(error)
    return next((refused for part, refused in _REFUSED.items() if part in text), None)


def _line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= 300 else first[:297] + "..."
