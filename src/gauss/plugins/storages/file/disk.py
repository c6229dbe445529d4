"""Files as the log uses them: whole writes, errors that say what to do, handles that outlive their readers."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gauss.contracts.chunk import MappedFile
from gauss.contracts.framing import Buffer
from gauss.model.errors import DiskFull, StorageError
from gauss.model.files import PRIVATE_FILE

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
COPY_BYTES = 1 << 20


class Handle:
    """An open file that closes when nobody refers to it: a reader may still use one the writer has left."""

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
def said_plainly(action: str, path: Path) -> Iterator[None]:
    """Turns the system's errors into ours."""
    try:
        yield
    except OSError as error:
        reason = f"{action} {path}: {error.strerror}"
        if error.errno in _FULL:
            raise DiskFull(reason, hint="free some space, or bound the topic by max_bytes or retention") from error
        raise StorageError(reason, hint="check the disk and the folder's permissions") from error


def mapped(path: Path) -> memoryview:
    """A file's bytes as they are now, without reading them; lives as long as somebody refers to it."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(MappedFile.map(file.fileno()))


def copy_bytes(source: int, target: int, size: int) -> None:
    """The first `size` bytes of a file behind what the other holds, by the kernel alone where it can."""
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
        in_kernel = copied > 0  # another file system, or one that can't: go on by way of memory
        position += copied


def segment_files(root: Path, suffix: str) -> list[Path]:
    """Files of segments by their names, the oldest first: the folder may hold files of the user's own."""
    name = "[0-9]" * 20 + f".{suffix}"
    found = [*root.glob(name), *root.glob(f"[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]/{name}")]
    return sorted(found, key=lambda path: int(path.name.partition(".")[0]))


def sync_folder(folder: Path) -> None:
    """Makes new and removed names in a folder last."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create(path: Path) -> BinaryIO:
    """A new or emptied file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE), "wb")


def replace_file(path: Path, data: bytes) -> None:
    """Writes a small file so that either the old or the new one is there, whatever happens."""
    fresh = path.with_suffix(path.suffix + ".new")
    with create(fresh) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def lock_folder(folder: Path) -> int:
    """Takes the folder for this log alone; the kernel lets go when the process ends. Gives the descriptor."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise StorageError(
            f"{folder} is in use by another topic or process", hint="give every file topic a data_dir of its own"
        ) from error
    return fd
