"""Maps exceptions to codes of the task ABI, and back."""

from __future__ import annotations

from gauss.contracts.cursor import Code
from gauss.model.errors import (
    Collected,
    ConfigError,
    GaussError,
    NotFound,
    Rejected,
    StorageError,
    Unavailable,
)

_OUTSIDE = (Collected, NotFound, Rejected, StorageError, Unavailable)


def code_of(error: Exception) -> Code:
    """INVALID for a fault of the request, REJECTED for limits and data that is gone, else PANIC."""
    if isinstance(error, ConfigError):
        return Code.INVALID
    return Code.REJECTED if isinstance(error, _OUTSIDE) else Code.PANIC


def error_of(code: Code, what: str) -> GaussError:
    """An exception for a code that was returned without one."""
    if code is Code.INVALID:
        return ConfigError(what)
    return Rejected(what) if code is Code.REJECTED else GaussError(what, hint="the trace is in the engine's log")
