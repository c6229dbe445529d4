"""Steps on files that are durable when they return, and either done or not done after a crash."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Makes a folder with those above it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file: afterwards it has this content, or what it had before. Not durable until its folder is. The caller
    holds a lock: the temporary file has one name, so that crashes do not leave many."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)  # noqa: PTH105 (named as the one step that counts)


def swap(new: Path, live: Path, aside: Path) -> None:
    """Puts a folder in the place of another one, which is at `new` or `aside` afterwards. Atomic where the file system
    can exchange two folders; else `undo_swap` repairs what a crash has left."""
    if not live.exists():
        make_folder(live.parent)
        new.rename(live)
    elif not _exchange(new, live):
        live.rename(aside)
        new.rename(live)
    sync_folder(live.parent)
    sync_folder(new.parent)


def undo_swap(live: Path, aside: Path) -> None:
    """Puts the old folder back if a swap in two steps was interrupted between them."""
    if aside.exists() and not live.exists():
        aside.rename(live)
        sync_folder(live.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two folders in one step; returns whether the system can."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(other))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock that ends with the process."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
