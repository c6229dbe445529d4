"""Every error Gauss raises on purpose.

GaussError                 message + hint; `retryable` says whether trying again helps
├── ConfigError            the config, a command line or a request is wrong
├── PluginError            a plugin is missing, has another ABI, or failed to start
├── FrameError             bytes that can't be framed; carries them
├── StorageError           a log or journal can't be read or written
│   ├── DiskFull           below `min_free_bytes`
│   └── Damaged            bytes on disk fail their checksum
├── Fenced                 the caller's generation is older than the claimed one
├── ProtocolError          a call breaks the delivery rules (gap in epochs, other source ends)
├── NotFound               no such topic, processor, reader or record
├── Collected              the offset is no longer retained
├── Rejected               refused by a limit or policy
└── Unavailable            the engine or a peer does not answer (retryable)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_TRACE_MARK = "gauss error: "
_IN_TRACE = re.compile(rf"^\s*{_TRACE_MARK}(\{{.*\}})\s*$", re.MULTILINE)


class GaussError(Exception):
    """An error with a stable code, a message and a hint."""

    code = "error"
    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def to_dict(self) -> dict[str, object]:
        """The one error shape of the HTTP API, the Flight protocol and `--json`."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "retryable": self.retryable}


class ConfigError(GaussError):
    code = "config"


class PluginError(GaussError):
    code = "plugin"


class FrameError(GaussError):
    """Bytes that can't be framed. `bad` holds them; `reason` is the code of the dead letter."""

    code = "frame"

    def __init__(self, message: str, *, reason: str, bad: bytes = b"", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.bad = bad


class StorageError(GaussError):
    code = "storage"


class DiskFull(StorageError):
    code = "disk_full"
    retryable = True


class Damaged(StorageError):
    """Records from `first` to `stop` (exclusive) fail their checksum."""

    code = "damaged"
    first = stop = 0

    def __init__(self, message: str, *, first: int = 0, stop: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.first, self.stop = first, stop


class Fenced(GaussError):
    code = "fenced"


class ProtocolError(GaussError):
    code = "protocol"


class NotFound(GaussError):
    code = "not_found"


class Collected(GaussError):
    code = "collected"


class Rejected(GaussError):
    code = "rejected"


class Unavailable(GaussError):
    code = "unavailable"
    retryable = True


def _all(cls: type[GaussError]) -> dict[str, type[GaussError]]:
    found: dict[str, type[GaussError]] = {}
    for sub in cls.__subclasses__():
        found.update(_all(sub))
    found[cls.code] = cls  # subclasses without their own code become this class
    return found


def from_dict(error: dict[str, object]) -> GaussError:
    """The error described by `to_dict`, as an instance of its class."""
    cls = _all(GaussError).get(str(error.get("code")), GaussError)
    made = cls.__new__(cls)
    GaussError.__init__(made, str(error.get("message", "")), hint=str(error.get("hint", "")))
    made.retryable = bool(error.get("retryable", cls.retryable))  # the class may not be loaded here
    if isinstance(made, FrameError):
        made.reason, made.bad = "frame", b""
    return made


@contextmanager
def traced() -> Iterator[None]:
    """Adds a note to a GaussError that leaves the block, and to those that caused it. Tracebacks print notes, so
    `errors_in_trace` finds the errors after another language has passed the traceback on as text."""
    try:
        yield
    except Exception as error:
        found: BaseException | None = error
        seen: set[int] = set()
        while found is not None and id(found) not in seen:  # `raise error from error` makes it its own cause
            seen.add(id(found))
            if isinstance(found, GaussError):
                found.add_note(_TRACE_MARK + json.dumps(found.to_dict()))
            found = found.__cause__ or found.__context__
        raise


def errors_in_trace(text: str) -> list[GaussError]:
    """The errors that `traced` noted in a printed traceback, in the order in which they were raised."""
    found = []
    for described in _IN_TRACE.findall(text):
        with suppress(ValueError):  # a text that was cut
            found.append(from_dict(json.loads(described)))
    return found
