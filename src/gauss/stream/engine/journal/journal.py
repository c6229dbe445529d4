"""The commit journal: one append-only file of checksummed entries. An entry on disk is the commit point of a publish.

Compaction writes a new file that begins with a snapshot of the state and renames it over the old one.
`journal_scan` knows the file's form.
"""

from __future__ import annotations

import errno
import logging
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from gauss.model.errors import DiskFull, StorageError
from gauss.model.files import PRIVATE_FILE, make_private
from gauss.stream.engine.journal.journal_scan import MAGIC, Scanned, encode, scan

NAME = "commits"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


class JournalDamaged(StorageError):
    """Damage that no crash causes; `scanned` is the readable part of the journal."""

    def __init__(self, path: Path, scanned: Scanned) -> None:
        super().__init__(f"{path} is damaged at byte {scanned.end}: {scanned.damage}")
        self.path = path
        self.scanned = scanned


def keep_copy(path: Path) -> Path:
    """Copies a damaged journal beside it, once for the same bytes."""
    content = path.read_bytes()
    copy = path.with_name(f"{path.name}.damaged-{zlib.crc32(content):08x}")
    if not copy.exists():
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:
            file.write(content)
            os.fsync(file.fileno())
        sync_directory(path.parent)
    return copy


def replace_journal(directory: Path, snapshot: bytes) -> tuple[int, int]:
    """Replaces the journal by one that holds only this state; returns its descriptor and size."""
    make_private(directory)
    fresh, content = directory / "commits.new", MAGIC + encode(snapshot)
    fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        done = 0
        while done < len(content):
            done += os.pwrite(fd, content[done:], done)
        os.fsync(fd)
        fresh.rename(directory / NAME)
    except OSError:
        os.close(fd)
        fresh.unlink(missing_ok=True)
        raise
    sync_directory(directory)
    return fd, len(content)


class Journal:
    """Appends entries and returns them at open; a torn tail is truncated. The ledger's lock serialises the calls."""

    def __init__(self, directory: Path) -> None:
        make_private(directory)
        self.path = directory / NAME
        self._directory = directory
        self._unsynced = False
        self._broken = ""
        self._fd = -1
        self.size = 0

    def replay(self) -> Iterator[bytes]:
        """All entries since the last compaction; must be read to the end before the first append. Raises
        JournalDamaged, without a change on disk, if more than the tail is wrong."""
        content = self.path.read_bytes() if self.path.exists() else b""
        found = scan(content)
        if found.damage:
            raise JournalDamaged(self.path, found)
        yield from found.bodies
        if len(content) > found.end:
            log.warning("journal: truncated %d bytes of an incomplete entry at %d", len(content) - found.end, found.end)
        # An incomplete compaction: the file that it would have replaced is intact.
        (self._directory / "commits.new").unlink(missing_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        os.ftruncate(self._fd, found.end)
        if not found.end:
            os.pwrite(self._fd, MAGIC, 0)
        os.fsync(self._fd)
        self.size = found.end or len(MAGIC)

    def append(self, body: bytes, *, sync: bool) -> None:
        """Writes one entry. If that fails, nothing of it remains, and DiskFull or StorageError is raised."""
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
                    hint="free disk space; the commit is not visible and will be retried",
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
            # A rejected entry may be complete at the next replay: write no more.
            self._broken = f"{cause}; then {error}"

    def sync(self) -> None:
        """Syncs entries that were appended without `sync`; called at an interval."""
        if self._unsynced:
            self._unsynced = False
            os.fsync(self._fd)

    def compact(self, snapshot: Callable[[], bytes]) -> None:
        """Replaces all entries by one with the state; after a failure the old journal stays in use."""
        try:
            fd, size = replace_journal(self._directory, snapshot())
        except OSError as error:
            log.warning("journal: not compacted: %s", error)
            return
        os.close(self._fd)
        self._fd, self.size, self._unsynced, self._broken = fd, size, False, ""

    def close(self) -> None:
        try:
            self.sync()
        finally:
            if self._fd >= 0:
                os.close(self._fd)


def sync_directory(path: Path) -> None:
    """Makes a rename in the folder durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
