"""A rolled segment: its records in one Arrow IPC file (offset, ts_ms, data), which any Arrow reader opens.

`.arrow.new` is being written; it becomes `.arrow` when its footer is on the disk, and only then do the files of the log
go. Whatever dies in between, one of the two holds every record.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.model.batch import RECORD_SCHEMA
from gauss.plugins.storages.file.disk import sync_folder
from gauss.plugins.storages.file.segment import Segment

META = b"gauss"
BATCH_BYTES = 1 << 20

log = logging.getLogger(__name__)


class RolledSegment:
    """Reads as a `Segment` does; nothing is written to it."""

    blocks = 1

    def __init__(self, path: Path) -> None:
        """Raises ArrowInvalid when the file is not whole."""
        self.folder, self.base, self.before = path.parent, int(path.stem), 0
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            told = json.loads(reader.schema.metadata[META])
        self.end: int = told["end"]
        self.size: int = told["bytes"]
        """Of the log it was made of: what admission counts is the same before and after."""
        self.last_ts: int = told["last_ts"]
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
        self.unmap()

    def _batches(self) -> tuple[list[pa.RecordBatch], np.ndarray]:
        """The batches, which stay in the file, and the offset at which each begins."""
        opened = self._opened
        if opened is None:
            reader = pa.ipc.open_file(pa.memory_map(str(self.file)))
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            counts = [batch.num_rows for batch in batches]
            opened = self._opened = batches, self.base + np.cumsum([0, *counts[:-1]])
        return opened

    def read(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        """Records of [start, stop) that lie here, up to about `max_bytes`; one batch at least."""
        batches, starts = self._batches()
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
        """The first record here whose ts_ms is not below the given one."""
        batches, starts = self._batches()
        for batch, start in zip(batches, starts.tolist(), strict=True):
            times = batch.column(1).to_numpy()
            if times[-1] >= ts_ms:
                return int(start) + int(np.searchsorted(times, ts_ms))
        return self.end

    def bytes_before(self, offset: int) -> int:
        """About how many bytes lie before `offset`."""
        passed = min(max(offset - self.base, 0), self.end - self.base)
        return self.size * passed // (self.end - self.base)


def roll(segment: Segment) -> RolledSegment:
    """The Arrow file of a segment that is written no more; the segment's own files stay. FileNotFoundError when the
    segment has gone meanwhile."""
    target = segment.path("arrow")
    fresh = segment.path("arrow.new")
    told = {"base": segment.base, "end": segment.end, "bytes": segment.size, "last_ts": segment.last_ts}
    schema = RECORD_SCHEMA.with_metadata({META: json.dumps(told).encode()})
    try:
        with fresh.open("wb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                for batch in _batches(segment):
                    writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(segment.folder)
    return RolledSegment(target)


def _batches(segment: Segment) -> Iterator[pa.RecordBatch]:
    position = segment.base
    while position < segment.end:
        placed = segment.read(position, segment.end, BATCH_BYTES)
        table = pa.Table.from_batches([chunk.batch(offset) for offset, chunk in placed], RECORD_SCHEMA)
        yield from table.combine_chunks().to_batches()
        position += len(table)


def open_rolled(path: Path) -> RolledSegment | None:
    """The rolled segment of a file; None, and the file set aside, when a disk has lost some of it."""
    try:
        return RolledSegment(path)
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        kept = path.with_suffix(".arrow.torn")
        path.rename(kept)
        log.warning("%s is not whole: %s; it was set aside as %s", path, error, kept.name)
        return None
