"""File operations of the log: atomic writes, errors with hints, reference-counted handles."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gauss.contracts.chunk import MappedFile
from gauss.contracts.framing import Buffer
from gauss.model.errors import DiskFull, StorageError
from gauss.model.files import PRIVATE_FILE
from gauss.process import locks

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
COPY_BYTES = 1 << 20


class Handle:
    """An open file that is closed with its last reference: a reader may use it after the writer has finished it."""

    __slots__ = ("fd", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)

    def write(self, data: Buffer, position: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self.fd, view, position)
            view, position = view[written:], position + written

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        os.fdatasync(self.fd)


@contextmanager
def os_errors_explained(action: str, path: Path) -> Iterator[None]:
    """Converts OSError to errors of Gauss with a hint."""
    try:
        yield
    except OSError as error:
        reason = f"{action} {path}: {error.strerror}"
        if error.errno in _FULL:
            raise DiskFull(reason, hint="free some space, or bound the topic by max_bytes or retention") from error
        raise StorageError(reason, hint="check the disk and the folder's permissions") from error


def mapped(path: Path) -> memoryview:
    """A memory map of a file, unmapped with its last reference."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(MappedFile.map(file.fileno()))


def copy_bytes(source: int, target: int, size: int) -> None:
    """Appends the first `size` bytes of a file to another, inside the kernel if possible."""
    position, in_kernel = 0, hasattr(os, "copy_file_range")
    while position < size:
        if not in_kernel:
            data = os.pread(source, min(size - position, COPY_BYTES), position)
            if not data:
                raise OSError(errno.EIO, "the file is shorter than it was")
            os.write(target, data)
            position += len(data)
            continue
        try:
            copied = os.copy_file_range(source, target, size - position, offset_src=position)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            copied = 0
        in_kernel = copied > 0  # another file system, or unsupported: continue through memory
        position += copied


def segment_files(root: Path, suffix: str) -> list[Path]:
    """The segment files of a folder, oldest first, recognized by name: users may store other files there."""
    name = "[0-9]" * 20 + f".{suffix}"
    found = [*root.glob(name), *root.glob(f"[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]/{name}")]
    return sorted(found, key=lambda path: int(path.name.partition(".")[0]))


def sync_folder(folder: Path) -> None:
    """Syncs a folder, so that created and removed names are durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create(path: Path) -> BinaryIO:
    """Creates or truncates a file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE), "wb")


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a small file atomically."""
    fresh = path.with_suffix(path.suffix + ".new")
    with create(fresh) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def lock_folder(folder: Path) -> int:
    """Locks the folder for this log until the process ends; returns the descriptor of the lock."""
    fd = locks.take(folder / "lock")
    if fd is None:
        raise StorageError(
            f"{folder} is in use by another topic or process", hint="give every file topic a data_dir of its own"
        )
    return fd
