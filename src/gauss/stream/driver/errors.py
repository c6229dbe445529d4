"""Java's and Py4J's errors as one sentence; the trace stays in the log."""

from __future__ import annotations

import re

from gauss.model.errors import GaussError
from gauss.stream.client import as_gauss_error

_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_GAUSS = re.compile(r"^gauss\.model\.errors\.(\w+): (.+)$", re.MULTILINE)
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
        "leave the order to whoever reads the result",
    ),
    "Offset is not supported": ("OFFSET has no meaning in a stream", "leave it out"),
    "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY": (
        "a subquery can't read the stream again",
        "use the join or window-join processor",
    ),
}
"""What Spark refuses to do with a stream, by a part of its message: why, and what to do."""
_TRANSIENT = (
    "gauss.model.errors.Unavailable",
    "gauss.clients.errors.Unclear",
    "gauss.model.errors.DiskFull",
    "No space left on device",
    "Disk quota exceeded",
)
"""Parts of an error's text, whoever of Python, Java and the servers raised it."""
_NOISE = re.compile(r"STREAM_FAILED|PYTHON_STREAMING_DATA_SOURCE|PYTHON_DATA_SOURCE_ERROR|Job aborted|Writing job")


def sentence(error: BaseException | str) -> str:
    """What went wrong, for a person: the innermost cause that says something, on one line."""
    if isinstance(error, GaussError):
        return _line(error.message)
    text = str(error)
    if found := _GAUSS.findall(text):
        return _line(found[-1][1])
    if '{"code"' in text:
        return _line(as_gauss_error(GaussError(text)).message)
    if told := refusal(text):
        return f"{told[0]}; {told[1]}"
    if "Python worker exited unexpectedly" in text:
        return "its worker process has died: ended by the transform itself, killed, or out of memory"
    for pattern in (_PYTHON, _CONDITION, _JAVA):
        causes = [match for match in pattern.findall(text) if not _NOISE.search(" ".join(match))]
        if causes:
            kind, message = causes[-1]
            return _line(message if pattern is _CONDITION else f"{message} ({kind.rsplit('.', 1)[-1]})")
    return _line(text) or "Spark gave no reason"


def is_transient(error: BaseException | str) -> bool:
    """Whether it ends by itself: a server that is away, or a full disk."""
    if isinstance(error, GaussError):
        return error.retryable
    return any(part in str(error) for part in _TRANSIENT)


def refusal(error: BaseException | str) -> tuple[str, str] | None:
    """Why Spark does not do this with a stream, and what to do instead; None for any other error."""
    text = str(error)
    return next((told for part, told in _REFUSED.items() if part in text), None)


def _line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= 300 else first[:297] + "..."
