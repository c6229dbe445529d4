"""Examines the tail of a log after a crash: decides which blocks are cut and which stay as damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gauss.plugins.storages.file.index import ENTRY, OWN_TIMES, IndexEntry
from gauss.plugins.storages.file.integrity import Files

SECTOR = 512
ZEROS = 16
"""Shorter runs of zeros may belong to a record."""


class Tail:
    """The last segment of a log. A torn block is one at the very end that lacks bytes; any other fault is damage, and
    nothing before it is cut."""

    def __init__(self, files: Files) -> None:
        self._files = files
        entries = files.entries()
        written = np.flatnonzero(entries["count"])
        self._entries = [IndexEntry(*fields) for fields in entries[: written[-1] + 1 if len(written) else 0].tolist()]
        self.torn = self.uncommitted = 0
        """Number of records that are cut."""
        self.uncommitted_publishes: set[int] = set()
        torn_publish = 0
        while self._entries and self._is_torn(len(self._entries) - 1):
            last = self._entries.pop()
            self.torn += last.records
            torn_publish = last.publish
        self._torn_publish = torn_publish
        self._sound = [self._is_sound(number) for number in range(len(self._entries))]

    def cut_uncommitted(self, committed: Callable[[int], bool]) -> None:
        """Cuts uncommitted blocks from the end, and the rest of an epoch whose tail is torn."""
        while self._entries and self._sound[-1] and (publish := self._entries[-1].publish):
            known = committed(publish)
            if known and publish != self._torn_publish:
                return
            self._sound.pop()
            records = self._entries.pop().records
            if known:
                self.torn += records
            else:
                self.uncommitted += records
                self.uncommitted_publishes.add(publish)

    # --- what stays ---

    @property
    def is_damaged(self) -> bool:
        lost_index = len(self._files.data) > 0 and not self._files.path.with_suffix(".index").exists()
        return lost_index or not all(self._sound)

    @property
    def ends_soundly(self) -> bool:
        return self._sound[-1] if self._sound else not self.is_damaged

    @property
    def blocks(self) -> int:
        return len(self._entries)

    @property
    def end(self) -> int:
        """Position after the last intact block."""
        return max((entry.end for entry in self._sound_entries()), default=self._files.base)

    @property
    def size(self) -> int:
        return max((entry.end_position for entry in self._sound_entries()), default=0)

    def rest(self) -> memoryview:
        """The bytes after the last intact block."""
        return self._files.data[self.size :]

    @property
    def unsound_records(self) -> int:
        """The number of records in the entries after the last intact one, at most one per byte."""
        end = self.end
        return sum(min(entry.records, entry.length) for entry in self._entries if entry.offset >= end)

    def _sound_entries(self) -> Iterator[IndexEntry]:
        return (entry for entry, sound in zip(self._entries, self._sound, strict=True) if sound)

    # --- what goes ---

    @property
    def is_cut(self) -> bool:
        return self.ends_soundly and (
            len(self._files.data) > self.size or len(self._files.index) > self.blocks * ENTRY.size
        )

    @property
    def why(self) -> str:
        return "torn" if self.torn else "uncommitted" if self.uncommitted else "unfinished"

    def explained(self) -> str:
        """The reason for the cut, for the log."""
        found = [
            f"{self.torn} records are lost because their bytes are incomplete" if self.torn else "",
            f"{self.uncommitted} records of publishes that are not in the journal are removed; their processors"
            " publish them again"
            if self.uncommitted
            else "",
        ]
        return "; ".join(each for each in found if each) or "an incomplete append is removed"

    # --- judging blocks ---

    def _is_sound(self, number: int) -> bool:
        return self._follows(number) and self._files.holds(self._entries[number])

    def _follows(self, number: int) -> bool:
        entry = self._entries[number]
        before = self._entries[number - 1] if number else None
        if before is None:
            return (entry.offset, entry.position) == (self._files.base, 0)
        # A damaged neighbour proves nothing: the checksum of this block decides.
        return (entry.offset, entry.position) == (before.end, before.end_position) or not self._files.holds(before)

    def _is_torn(self, number: int) -> bool:
        """Whether a block lacks bytes that were never written or were lost in a power failure."""
        files, entry = self._files, self._entries[number]
        if not self._follows(number) or files.holds(entry):
            return False
        own_times = entry.flags & OWN_TIMES
        if entry.end_position > len(files.data) or (own_times and 8 * (entry.end - files.base) > len(files.times)):
            return not any(files.holds(other) for other in self._changed(entry))
        written = len(bytes(files.data[entry.position :]).rstrip(b"\x00")) + entry.position
        boundary = -(-written // SECTOR) * SECTOR
        return boundary > entry.position and len(files.data) - boundary >= ZEROS

    def _changed(self, entry: IndexEntry) -> Iterator[IndexEntry]:
        """Variants of the entry with one field corrected; if one matches, only the entry is damaged."""
        if len(self._files.data) > entry.position:
            yield entry._replace(length=len(self._files.data) - entry.position)
        yield entry._replace(flags=entry.flags ^ OWN_TIMES)
        count = len(self._files.times) // 8 - (entry.offset - self._files.base)
        if 0 < count < 1 << 32:
            yield entry._replace(records=count)
