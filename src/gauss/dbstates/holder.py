"""The file by whose lock a client holds its job and its instance: they live as long as some process has the lock."""

from __future__ import annotations

import errno
from pathlib import Path

from gauss.model.errors import ConfigError
from gauss.process import locks

_BUSY = frozenset([errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR])
"""Errors that say nothing of the file."""


def is_held(path: str) -> bool:
    """Whether a process holds a lock on the file. A path that can't be locked is held by nobody."""
    try:
        return bool(path) and locks.is_locked(Path(path))
    except OSError as error:
        return error.errno in _BUSY
    except ValueError:  # a NUL
        return False


def check_holder(path: str) -> None:
    """Raises ConfigError for something that can't be locked."""
    try:
        found = not path or Path(path).is_file()
    except (OSError, ValueError):
        found = False
    if not found:
        raise ConfigError(f"held_by: expected a file, found {path!r}", hint="lock a file with flock, and name it")
