"""Java's and Py4J's errors as one sentence; the trace stays in the log."""

from __future__ import annotations

import re

from gauss.model.errors import GaussError
from gauss.stream.client import as_gauss_error

_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_GAUSS = re.compile(r"^gauss\.model\.errors\.(\w+): (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[([A-Z0-9_.]+)\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_JAVA = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)
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
    for pattern in (_PYTHON, _CONDITION, _JAVA):
        causes = [match for match in pattern.findall(text) if not _NOISE.search(" ".join(match))]
        if causes:
            kind, message = causes[-1]
            return _line(message if pattern is _CONDITION else f"{message} ({kind.rsplit('.', 1)[-1]})")
    return _line(text) or "Spark gave no reason"


def _line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= 300 else first[:297] + "..."
