"""The commit journal: one append-only file of checksummed entries. An entry on disk is the commit point of a publish.

File: 8 bytes of magic, then entries `u32 length, u32 crc32(length + body), body`. Compaction writes a new file that
begins with a snapshot of the state and renames it over the old one.
"""

from __future__ import annotations

import errno
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from gauss.model.errors import DiskFull, StorageError

MAGIC = b"GAUSSJ\x00\x01"
HEAD = struct.Struct("<II")
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


def encode(body: bytes) -> bytes:
    """An entry as it lies in the file."""
    length = struct.pack("<I", len(body))
    return length + struct.pack("<I", zlib.crc32(body, zlib.crc32(length))) + body


def entries(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Whole entries behind the magic, each with the position of its end; stops at the first that is not whole."""
    position = len(MAGIC)
    while position + HEAD.size <= len(content):
        length, crc = HEAD.unpack_from(content, position)
        end = position + HEAD.size + length
        body = content[position + HEAD.size : end]
        # A run of zeros, as a crash may leave it, would be an endless row of empty entries: none is empty.
        if length == 0 or end > len(content) or zlib.crc32(body, zlib.crc32(content[position : position + 4])) != crc:
            return
        yield body, end
        position = end


class Journal:
    """Appends entries and gives them back at open; a torn tail is cut. The ledger's lock serialises the calls."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "commits"
        self._directory = directory
        self._unsynced = False
        self._broken = ""
        (directory / "commits.new").unlink(missing_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = 0

    def replay(self) -> Iterator[bytes]:
        """Every entry since the last compaction; must be read to its end before the first append."""
        content = self.path.read_bytes()
        if content[: len(MAGIC)] != MAGIC:
            if len(content) >= len(MAGIC):
                raise StorageError(
                    f"{self.path} is not a commit journal",
                    hint="the data directory is of another program or version; choose another with --data-dir",
                )
            content = b""
        end = len(MAGIC)
        for body, end in entries(content):  # noqa: B007
            yield body
        if len(content) > end:
            log.warning("journal: %d bytes of an unfinished entry cut at %d", len(content) - end, end)
        os.ftruncate(self._fd, end if content else 0)
        if not content:
            os.pwrite(self._fd, MAGIC, 0)
        os.fsync(self._fd)
        self.size = end

    def append(self, body: bytes, *, sync: bool) -> None:
        """Writes one entry; when this fails nothing of it stays and DiskFull or StorageError is raised."""
        if self._broken:
            raise StorageError(f"the commit journal can't be written: {self._broken}", hint="restart the engine")
        entry = encode(body)
        try:
            self._write(entry)
            if sync:
                os.fsync(self._fd)
        except OSError as error:
            self._cut(error)
            if error.errno in NO_SPACE:
                raise DiskFull(
                    f"no space left for the commit journal in {self._directory}",
                    hint="free some disk; nothing of this commit became visible, and it will be tried again",
                ) from error
            raise StorageError(f"the commit journal can't be written: {error}") from error
        self.size += len(entry)
        self._unsynced = not sync

    def _write(self, entry: bytes) -> None:
        done = 0
        while done < len(entry):
            done += os.pwrite(self._fd, entry[done:], self.size + done)

    def _cut(self, cause: OSError) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError as error:
            # What lies there may become whole at the next replay although it was refused: write no more.
            self._broken = f"{cause}; then {error}"

    def sync(self) -> None:
        """Brings to disk what was appended without `sync`; called by interval."""
        if self._unsynced:
            self._unsynced = False
            os.fsync(self._fd)

    def compact(self, snapshot: Callable[[], bytes]) -> None:
        """Replaces every entry by one that holds the state; a failure leaves the old journal in use."""
        fresh = self._directory / "commits.new"
        content = MAGIC + encode(snapshot())
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            done = 0
            while done < len(content):
                done += os.pwrite(fd, content[done:], done)
            os.fsync(fd)
            fresh.rename(self.path)
        except OSError as error:
            os.close(fd)
            fresh.unlink(missing_ok=True)
            log.warning("journal: not compacted: %s", error)
            return
        os.close(self._fd)
        self._fd, self.size, self._unsynced, self._broken = fd, len(content), False, ""
        sync_directory(self._directory)

    def close(self) -> None:
        try:
            self.sync()
        finally:
            os.close(self._fd)


def sync_directory(path: Path) -> None:
    """Makes a rename in the folder last."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
