"""A segment: framed bytes in one file, with an index and, where times differ, a file of times beside it."""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path

import numpy as np

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.model.errors import Damaged, StorageError
from gauss.plugins.storages.file.disk import Handle, sync_folder
from gauss.plugins.storages.file.index import ENTRY, MAX_BLOCK_BYTES, OWN_TIMES, BlockIndex, IndexEntry
from gauss.plugins.storages.file.integrity import Damage, Files, check_index, mapped_if_there, undamaged

CHUNK_BYTES = 256 << 10
"""Adjacent small blocks are read as one chunk of about this size."""


REMOVED = "removed"
"""Suffix of the index of a segment that is being removed."""
ROWS = "rows.arrow"
"""Suffix of the file beside a segment that holds its records as a table."""


def remove_rest(mark: Path) -> None:
    """Removes the remaining files of a segment, the mark last."""
    for suffix in (".log", ".times", f".{ROWS}", f".{REMOVED}"):
        mark.with_suffix(suffix).unlink(missing_ok=True)


class Segment:
    """Records from `base` to `end`. Only the last segment of a log is written; any number of threads read."""

    def __init__(self, folder: Path, base: int, framing: Framing, before: int) -> None:
        self.folder = folder
        self.base = base
        self.before = before
        """Bytes in the segments before this one."""
        self.framing = framing
        self.end = base
        self.size = 0
        self.blocks = 0
        self.last_ts = 0
        self.damage: list[Damage] = []
        """Ranges found damaged, in order."""
        self._sound = bytearray()
        """1 for each block whose checksum was compared since the segment was mapped."""
        self._index: BlockIndex | None = None
        self._map: memoryview | None = None
        self._files: tuple[Handle, Handle] | None = None  # data, index; only while it is written
        self._times: Handle | None = None

    def path(self, suffix: str) -> Path:
        return self.folder / f"{self.base:020d}.{suffix}"

    @property
    def is_mapped(self) -> bool:
        return self._map is not None or (self._index is not None and self._files is None)

    @property
    def is_written(self) -> bool:
        return self._files is not None

    # --- writing ---

    def begin_writing(self) -> None:
        """Opens the files and loads the index."""
        data, index = Handle(self.path("log")), Handle(self.path("index"))
        entries = bytearray(os.pread(index.fd, self.blocks * ENTRY.size, 0))
        self._index = BlockIndex(entries)
        self._files = (data, index)
        if self.path("times").exists():
            self._times = Handle(self.path("times"))

    def stop_writing(self) -> list[Handle]:
        """Finishes the segment; returns the files that may need a sync."""
        handles = self.handles()
        self._files = self._times = None
        self._index = None
        return handles

    def handles(self) -> list[Handle]:
        return [handle for handle in (*(self._files or ()), self._times) if handle is not None]

    def append(self, chunk: Chunk, publish: int) -> None:
        """Writes data, times and index entry in this order, so that a block with an entry is complete."""
        assert self._files is not None
        assert self._index is not None
        payload, (data, index) = chunk.payload, self._files
        length = len(payload)
        if length > MAX_BLOCK_BYTES:
            raise StorageError(f"expected a block up to {MAX_BLOCK_BYTES} bytes, found {length}")
        data.write(payload, self.size)
        times = b""
        if not isinstance(chunk.ts_ms, int) and chunk.ts_ms[0] != chunk.ts_ms[-1]:
            times = chunk.ts_ms.astype("<i8").tobytes()
            if self._times is None:
                self._times = Handle(self.path("times"))
                sync_folder(self.folder)
            # A record's time is at 8 × its number in the segment; blocks with a single time leave a hole.
            self._times.write(times, 8 * (self.end - self.base))
        last_ts, flags = chunk.last_ts(), OWN_TIMES if times else 0
        fields = IndexEntry(self.end, self.size, last_ts, publish, chunk.count, length, 0, flags)
        entry = ENTRY.pack(*fields.sealed(payload, times))
        index.write(entry, self.blocks * ENTRY.size)
        buffer = self._index.buffer
        assert isinstance(buffer, bytearray)
        buffer += entry
        self.size += length
        self.blocks += 1
        self.last_ts = last_ts
        self.end += chunk.count

    def cut(self, blocks: int) -> None:
        """Truncates the segment to its first `blocks` blocks, the index first, so that no entry is without data."""
        assert self._files is not None
        assert self._index is not None
        data, index = self._files
        last = self._index.entry(blocks - 1) if blocks else None
        end, size = (last.end, last.end_position) if last else (self.base, 0)
        index.truncate(blocks * ENTRY.size)
        data.truncate(size)
        if self._times is not None:
            self._times.truncate(min(os.fstat(self._times.fd).st_size, 8 * (end - self.base)))
        # A new buffer, since a reader may be searching the old one.
        self._index = BlockIndex(bytearray(self._index.buffer[: blocks * ENTRY.size]))
        del self._sound[blocks:]
        self.end, self.size, self.blocks = end, size, blocks
        self.last_ts = last.ts_ms if last else 0

    def remove(self) -> None:
        """Deletes the files; readers that have mapped them can continue."""
        # The mark distinguishes an interrupted removal from a lost index.
        if self.path("index").exists():
            self.path("index").rename(self.path(REMOVED))
        remove_rest(self.path(REMOVED))
        self.unmap()

    # --- reading ---

    def index(self) -> BlockIndex:
        found = self._index
        if found is None:
            found, self.damage = check_index(Files(self.path("log"), self.blocks), self.end)
            self._sound = bytearray(len(found))
            self._index = found
        return found

    def unmap(self) -> None:
        """Drops memory maps; they are unmapped with their last reader."""
        self._map = None
        if self._files is None:
            self._index = None

    def _bytes(self, start: int, stop: int) -> memoryview:
        view = self._map
        if view is None or len(view) < stop:
            view = self._map = mapped_if_there(self.path("log"))
        return view[start:stop]

    def check(self, first: int, limit: int) -> bool:
        """Verifies the checksums of blocks [first, limit), each once per mapping; returns False if new damage was
        found."""
        index, sound = self.index(), self._sound
        if len(sound) < limit:
            sound.extend(bytes(limit - len(sound)))
        known = len(self.damage)
        while (number := sound.find(0, first, limit)) >= 0:
            entry = index.entry(number)
            if not self._holds(entry) and not any(each.first == entry.offset for each in self.damage):
                bad = Damage(self.path("log"), entry.offset, entry.end, "bytes and checksum of a block differ")
                self.damage = sorted([*self.damage, bad], key=lambda each: each.first)
            sound[number] = 1
        return len(self.damage) == known

    def _holds(self, entry: IndexEntry) -> bool:
        payload = self._bytes(entry.position, entry.end_position)
        own = self._own_times(entry.offset, entry.records) if entry.flags & OWN_TIMES else b""
        return len(payload) == entry.length and entry.holds(payload, own)

    def check_all(self) -> bool:
        """Whether every record matches its checksum."""
        self.check(0, len(self.index()))
        return not self.damage

    def ends_soundly(self) -> bool:
        """Whether the last block is intact, and so end, size and newest time, which come from its entry."""
        blocks = len(self.index())
        self.check(max(blocks - 1, 0), blocks)
        return not self.damage or self.damage[-1].stop < self.end

    def read(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        """The records of this segment in [start, stop), up to about `max_bytes`, at least one block. Raises Damaged if
        the record at `start` is damaged."""
        index = self.index()
        while True:
            stop = undamaged(self.damage, start, stop)
            first = max(index.block_of(start), 0)
            limit = index.block_of(stop - 1) + 1
            if limit > first:
                budget = index.block_at_position(index.entry(first).position + max_bytes)
                limit = min(limit, max(budget, first + 1))
            if self.check(first, limit):
                break
        entries = index.entries(first, limit)
        # Lists, because for the few blocks of a read numpy's calls would dominate the cost.
        offsets, positions = entries["offset"].tolist(), entries["position"].tolist()
        ends = (entries["offset"] + entries["count"]).tolist()
        end_positions = (entries["position"] + entries["length"]).tolist()
        placed: list[Placed] = []
        block = bisect_right(ends, start)
        while block < len(ends):
            group = max(bisect_right(end_positions, positions[block] + CHUNK_BYTES), block + 1)
            # A partially read block is a chunk of its own, so that only it has to be split into records.
            if start > offsets[block]:
                group = block + 1
            elif ends[group - 1] > stop and group - 1 > block:
                group -= 1
            offset, end = offsets[block], ends[group - 1]
            payload = self._bytes(positions[block], end_positions[group - 1])
            if len(payload) < end_positions[group - 1] - positions[block]:
                raise self._gone(offset, end)
            chunk = Chunk(payload, end - offset, self._times_of(entries[block:group]), self.framing)
            begin, finish = max(start, offset), min(stop, end)
            placed.append(Placed(begin, chunk.slice(begin - offset, finish - begin)))
            block = group
        return placed

    def _times_of(self, entries: np.ndarray) -> int | np.ndarray:
        times = entries["ts_ms"]
        if len(entries) == 1 and not entries["flags"][0] & OWN_TIMES:
            return int(times[0])
        own = entries["flags"] & OWN_TIMES
        if not own.any():
            if times[0] == times[-1]:
                return int(times[0])
            return np.repeat(times, entries["count"])
        counts = entries["count"].astype(np.int64)
        start = int(entries["offset"][0]) - self.base
        total = int(counts.sum())
        raw = self._own_times(start + self.base, total)
        if len(raw) < 8 * int(counts[: np.flatnonzero(own)[-1] + 1].sum()):
            raise self._gone(start + self.base, start + self.base + total)
        stored = np.zeros(total, dtype=np.int64)
        stored[: len(raw) // 8] = np.frombuffer(raw, dtype="<i8")
        return np.where(np.repeat(own, counts) > 0, stored, np.repeat(times, counts))

    def _gone(self, first: int, stop: int) -> Damaged:
        """The error of intact blocks whose files now lack bytes: they were rolled or collected, unless it is damage."""
        return Damage(self.path("log"), first, stop, "its files were cut or removed while it was read").error()

    def _own_times(self, offset: int, records: int) -> bytes:
        if not self.path("times").exists():
            return b""
        with self.path("times").open("rb") as file:
            return os.pread(file.fileno(), 8 * records, 8 * (offset - self.base))

    def offset_at(self, ts_ms: int) -> int:
        """Offset of the first record with `ts_ms >=` the given time; damaged records may be included."""
        index = self.index()
        block = index.block_at_time(ts_ms)
        # A wrong time may have skipped the previous block.
        self.check(max(block - 1, 0), min(block + 1, len(index)))
        stop = index.entry(block).offset if block < len(index) else self.end
        for damage in self.damage:
            if damage.first <= stop <= damage.stop:
                return damage.first
        if block >= len(index):
            return self.end
        entries = index.entries(block, block + 1)
        times = self._times_of(entries)
        inside = 0 if isinstance(times, int) else int(np.searchsorted(times, ts_ms))
        return int(entries["offset"][0]) + inside

    def bytes_before(self, offset: int) -> int:
        """Bytes of the blocks that end at or before `offset`."""
        index = self.index()
        block = index.block_of(offset)
        if block < 0:
            return 0
        entry = index.entry(block)
        return entry.end_position if offset >= entry.end else entry.position
