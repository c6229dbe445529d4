"""A rolled segment: its records in one Arrow IPC file (offset, ts_ms, data), which any Arrow reader opens.

`.arrow.new` is being written; it is renamed to `.arrow` when its footer is synced, and only then the files of the log
are removed, so one of the two always has all records. Arrow has no checksums: they are in a `.sum` file next to it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.model.batch import RECORD_SCHEMA
from gauss.plugins.storages.file import aside_folder
from gauss.plugins.storages.file.arrow_check import META, Sums, sound_batches
from gauss.plugins.storages.file.disk import create, segment_files, sync_folder
from gauss.plugins.storages.file.integrity import Damage, undamaged
from gauss.plugins.storages.file.segment import ROWS, Segment

BATCH_BYTES = 1 << 20

log = logging.getLogger(__name__)


class RolledSegment:
    """A read-only segment."""

    blocks = 1

    def __init__(self, path: Path) -> None:
        """Opens the file; if that fails, all its records are damaged."""
        self.folder, self.base, self.before = path.parent, int(path.stem), 0
        sums = Sums.beside(path) or Sums.within(path)
        self.end = self.base + 1 if sums is None else sums.end
        self.size = path.stat().st_size if sums is None else sums.bytes
        """The size of the original log, so that the topic's size does not change when a segment is rolled."""
        self.last_ts = 0 if sums is None else sums.last_ts
        self.damage: list[Damage] = []
        self._opened: tuple[list[pa.RecordBatch], np.ndarray] | None = None

    @property
    def file(self) -> Path:
        return self.folder / f"{self.base:020d}.arrow"

    @property
    def is_mapped(self) -> bool:
        return self._opened is not None

    def unmap(self) -> None:
        """Drops the memory map; it is unmapped with its last reader."""
        self._opened = None

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)
        self.file.with_suffix(".sum").unlink(missing_ok=True)
        self.unmap()

    def ends_soundly(self) -> bool:
        """Whether its end and newest time are reliable."""
        self.sound()
        return not self.damage or self.damage[-1].stop < self.end

    def check_all(self) -> bool:
        """Whether every record matches its checksum."""
        self.sound()
        return not self.damage

    def sound(self) -> tuple[list[pa.RecordBatch], np.ndarray]:
        """The intact batches, memory-mapped, and the first offset of each."""
        opened = self._opened
        if opened is None:
            if not self.file.exists():
                raise FileNotFoundError(self.file)
            batches, starts, self.damage = sound_batches(self.file, self.base, self.end)
            opened = self._opened = batches, np.array(starts, dtype=np.int64)
        return opened

    def read(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        """The records of this segment in [start, stop), up to about `max_bytes`, at least one batch. Raises Damaged if
        the record at `start` is damaged."""
        batches, starts = self.sound()
        stop = undamaged(self.damage, start, stop)
        number = max(int(np.searchsorted(starts, start, side="right")) - 1, 0)
        placed: list[Placed] = []
        while number < len(batches) and starts[number] < stop and max_bytes > 0:
            batch, offset = batches[number], int(starts[number])
            begin, finish = max(start, offset), min(stop, offset + batch.num_rows)
            number += 1
            if begin >= finish:
                continue
            part = batch.slice(begin - offset, finish - begin)
            chunk = Chunk(part.column(2), len(part), part.column(1).to_numpy())
            placed.append(Placed(begin, chunk))
            max_bytes -= chunk.nbytes
        return placed

    def offset_at(self, ts_ms: int) -> int:
        """Offset of the first record with `ts_ms >=` the given time; damaged records may be included."""
        batches, starts = self.sound()
        for batch, start in zip(batches, starts.tolist(), strict=True):
            times = batch.column(1).to_numpy()
            if times[-1] >= ts_ms:
                before = next((each.first for each in self.damage if each.stop == start), None)
                return int(start) + int(np.searchsorted(times, ts_ms)) if before is None else before
        return self.damage[-1].first if self.damage and self.damage[-1].stop == self.end else self.end

    def bytes_before(self, offset: int) -> int:
        """The approximate number of bytes before `offset`."""
        passed = min(max(offset - self.base, 0), self.end - self.base)
        return self.size * passed // (self.end - self.base)


def roll(segment: Segment) -> RolledSegment:
    """Writes the Arrow file of a finished segment, whose own files stay. Raises FileNotFoundError if the segment was
    removed in the meantime, Damaged if it cannot be read completely."""
    sums = Sums(segment.base, segment.end, segment.size, segment.last_ts)
    for path in write_rolled(segment.folder, sums, _batches(segment)):
        path.rename(path.with_suffix(""))
    sync_folder(segment.folder)
    return RolledSegment(segment.path("arrow"))


def write_rolled(folder: Path, sums: Sums, batches: Iterable[pa.RecordBatch]) -> list[Path]:
    """Writes records as an Arrow file with its checksums; returns both files, the checksums first, to be renamed to
    drop the suffix `.new`."""
    fresh = folder / f"{sums.base:020d}.arrow.new"
    written = {"base": sums.base, "end": sums.end, "bytes": sums.bytes, "last_ts": sums.last_ts}
    schema = RECORD_SCHEMA.with_metadata({META: json.dumps(written).encode()})
    try:
        with create(fresh) as file:
            with pa.ipc.new_file(file, schema) as writer:
                for batch in batches:
                    sums.add(batch)
                    writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        return [sums.write(fresh, folder / f"{sums.base:020d}.sum.new"), fresh]
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _batches(segment: Segment) -> Iterator[pa.RecordBatch]:
    position = segment.base
    while position < segment.end:
        placed = segment.read(position, segment.end, BATCH_BYTES)
        table = pa.Table.from_batches([chunk.batch(offset) for offset, chunk in placed], RECORD_SCHEMA)
        yield from table.combine_chunks().to_batches()
        position += len(table)


def open_rolled(root: Path) -> list[RolledSegment]:
    """The rolled segments of a folder. Removes incomplete files and the logs of intact rolled segments; a damaged
    rolled segment whose log still exists is set aside."""
    for unfinished in [path for suffix in ("arrow", "sum", ROWS) for path in segment_files(root, f"{suffix}.new")]:
        unfinished.unlink()  # its log still exists: that is removed only after the file is complete
    found: list[RolledSegment] = []
    for path in segment_files(root, "arrow"):
        rolled = RolledSegment(path)
        left = [
            path.with_suffix(suffix) for suffix in (".index", ".log", ".times") if path.with_suffix(suffix).exists()
        ]
        if left and rolled.check_all():
            for each in left:
                each.unlink()
        elif left:
            kept = aside_folder.folder_for(root, "damaged")
            with_log = path.with_suffix(".index") in left
            for each in [path] if with_log else left:
                aside_folder.move(each, kept)
            log.warning(
                "%s is damaged; %s",
                path,
                f"the log has its records, and it was moved to {kept}"
                if with_log
                else f"what was left of the log was moved to {kept}",
            )
            if with_log:
                continue
        found.append(rolled)
    return found
