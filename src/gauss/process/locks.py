"""File locks that show whether a process lives: the kernel releases them when their last holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from gauss.model.files import PRIVATE_FILE

_LOOK_SECONDS = 0.02


def take(path: Path, *, wait_seconds: float = 0.0) -> int | None:
    """The descriptor of an exclusive lock; None if another process still holds it after the wait."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(_LOOK_SECONDS)


def share(path: Path) -> int:
    """The descriptor of a shared lock on an existing file; children that inherit the descriptor hold it too."""
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether some process holds a lock on the file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
