"""A rolled segment: its records in one Arrow IPC file (offset, ts_ms, data), which any Arrow reader opens.

`.arrow.new` is being written; it becomes `.arrow` when its footer is on the disk, and only then do the files of the log
go. Whatever dies in between, one of the two holds every record. Arrow has no checksums: they stand in `.sum` beside it.
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
from gauss.plugins.storages.file import aside
from gauss.plugins.storages.file.arrow_check import META, Sums, sound_batches
from gauss.plugins.storages.file.disk import create, segment_files, sync_folder
from gauss.plugins.storages.file.integrity import Damage, undamaged
from gauss.plugins.storages.file.segment import ROWS, Segment

BATCH_BYTES = 1 << 20

log = logging.getLogger(__name__)


class RolledSegment:
    """Reads as a `Segment` does; nothing is written to it."""

    blocks = 1

    def __init__(self, path: Path) -> None:
        """Of a file that can't be opened at all, every record is damaged."""
        self.folder, self.base, self.before = path.parent, int(path.stem), 0
        told = Sums.beside(path) or Sums.within(path)
        self.end = self.base + 1 if told is None else told.end
        self.size = path.stat().st_size if told is None else told.bytes
        """Of the log it was made of: what admission counts is the same before and after."""
        self.last_ts = 0 if told is None else told.last_ts
        self.damage: list[Damage] = []
        self._opened: tuple[list[pa.RecordBatch], np.ndarray] | None = None

    @property
    def file(self) -> Path:
        return self.folder / f"{self.base:020d}.arrow"

    @property
    def is_mapped(self) -> bool:
        return self._opened is not None

    def unmap(self) -> None:
        """Forgets the memory map; it ends when the last reader lets go."""
        self._opened = None

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)
        self.file.with_suffix(".sum").unlink(missing_ok=True)
        self.unmap()

    def ends_soundly(self) -> bool:
        """Whether end and newest time can be trusted."""
        self.sound()
        return not self.damage or self.damage[-1].stop < self.end

    def check_all(self) -> bool:
        """Whether every record is as it was written."""
        self.sound()
        return not self.damage

    def sound(self) -> tuple[list[pa.RecordBatch], np.ndarray]:
        """The sound batches, which stay in the file, and the offset at which each begins."""
        opened = self._opened
        if opened is None:
            if not self.file.exists():
                raise FileNotFoundError(self.file)
            batches, starts, self.damage = sound_batches(self.file, self.base, self.end)
            opened = self._opened = batches, np.array(starts, dtype=np.int64)
        return opened

    def read(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        """Records of [start, stop) that lie here, up to about `max_bytes`; one batch at least. Raises Damaged when
        the record at `start` is."""
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
        """The first record here whose ts_ms is not below the given one; damaged ones may be such."""
        batches, starts = self.sound()
        for batch, start in zip(batches, starts.tolist(), strict=True):
            times = batch.column(1).to_numpy()
            if times[-1] >= ts_ms:
                before = next((each.first for each in self.damage if each.stop == start), None)
                return int(start) + int(np.searchsorted(times, ts_ms)) if before is None else before
        return self.damage[-1].first if self.damage and self.damage[-1].stop == self.end else self.end

    def bytes_before(self, offset: int) -> int:
        """About how many bytes lie before `offset`."""
        passed = min(max(offset - self.base, 0), self.end - self.base)
        return self.size * passed // (self.end - self.base)


def roll(segment: Segment) -> RolledSegment:
    """The Arrow file of a segment that is written no more; the segment's own files stay. FileNotFoundError when the
    segment has gone meanwhile, Damaged when not all of it can be read."""
    told = Sums(segment.base, segment.end, segment.size, segment.last_ts)
    for path in write_rolled(segment.folder, told, _batches(segment)):
        path.rename(path.with_suffix(""))
    sync_folder(segment.folder)
    return RolledSegment(segment.path("arrow"))


def write_rolled(folder: Path, sums: Sums, batches: Iterable[pa.RecordBatch]) -> list[Path]:
    """Writes records as an Arrow file with its checksums; gives both files, which have yet to lose the suffix `.new`,
    the checksums first."""
    fresh = folder / f"{sums.base:020d}.arrow.new"
    told = {"base": sums.base, "end": sums.end, "bytes": sums.bytes, "last_ts": sums.last_ts}
    schema = RECORD_SCHEMA.with_metadata({META: json.dumps(told).encode()})
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
    """The rolled segments of a folder. What a crash left of writing one goes, and the log that a sound one was made
    of; if the log is still there, a damaged one is set aside for it."""
    for unfinished in [path for suffix in ("arrow", "sum", ROWS) for path in segment_files(root, f"{suffix}.new")]:
        unfinished.unlink()  # the log that it was being made of is there: it goes only behind the finished file
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
            kept = aside.folder_for(root, "damaged")
            with_log = path.with_suffix(".index") in left
            for each in [path] if with_log else left:
                aside.move(each, kept)
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
