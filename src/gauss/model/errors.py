"""Every error Gauss raises on purpose.

GaussError                 message + hint; `retryable` says whether trying again helps
├── ConfigError            the config, a command line or a request is wrong
├── PluginError            a plugin can't be found, is of another ABI, or failed to start
├── FrameError             bytes that can't be framed; carries them
├── StorageError           a log or journal can't be read or written
│   ├── DiskFull           below `min_free_bytes`
│   └── Damaged            bytes on disk that are not the ones written
├── Fenced                 a lower generation than the claimed one: the caller is a zombie
├── ProtocolError          a call breaks the delivery rules (gap in epochs, other source ends)
├── NotFound               no such topic, processor, reader or record
├── Collected              the asked offset is behind the floor
├── Rejected               a limit or a policy does not allow it
└── Unavailable            the engine or a peer does not answer (retryable)
"""

from __future__ import annotations


class GaussError(Exception):
    """An error with a stable code, a sentence for the user and a hint of the fix."""

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
    """Bytes that a framing can't cut; `bad` holds them, `reason` is a fixed code for the dead letter."""

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
    """Records `first` up to `stop` can't be read: their bytes on disk are not the ones that were written."""

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
    found[cls.code] = cls  # a subclass without a code of its own comes back as this one
    return found


def from_dict(error: dict[str, object]) -> GaussError:
    """The error that `to_dict` described, as its own class again."""
    cls = _all(GaussError).get(str(error.get("code")), GaussError)
    made = cls.__new__(cls)
    GaussError.__init__(made, str(error.get("message", "")), hint=str(error.get("hint", "")))
    if isinstance(made, FrameError):
        made.reason, made.bad = "frame", b""
    return made
