"""Admission: how much a topic may accept now, what it must keep, and which records its log can store."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import Framing
from gauss.contracts.letter import Letter
from gauss.contracts.storage import Capacity, Log, WriteFull
from gauss.scan.merge import fitting
from gauss.stream.engine.topics.readers import Readers


class Keep(NamedTuple):
    """The possible floor, the slowest reader's position, and whether that reader holds more than the capacity."""

    floor: int
    hold: int
    over: bool


class Admission:
    """The rules of `write_full`. All calls need the topic's lock."""

    def __init__(self, capacity: Capacity, log: Log, readers: Readers) -> None:
        self._capacity = capacity
        self._log = log
        self._readers = readers

    def held_from(self) -> int | None:
        """The lowest offset that writers must keep; `None` if there is none."""
        if self._capacity.write_full is WriteFull.OVERWRITE:
            return None
        slowest = self._readers.slowest()
        return None if slowest is None else max(slowest.position, self._log.floor)

    def admitted(self, chunk: Chunk, appended: int) -> int:
        """How many of the chunk's first records are accepted at offset `appended` now."""
        hold = self.held_from()
        if hold is None:
            return chunk.count
        count = chunk.count
        if self._capacity.records is not None:
            count = min(count, self._capacity.records - (appended - hold))
        if count > 0 and self._capacity.bytes is not None:
            held = self._log.bytes_from(hold)
            fits = fitting(chunk, self._capacity.bytes - held)
            # A record above the limit is accepted when nothing else is held; otherwise it would never pass.
            count = min(count, max(fits, 0 if held else 1))
        return max(count, 0)

    def has_room(self) -> bool:
        """Whether one more record fits, as far as that is known without the record."""
        hold = self.held_from()
        if hold is None or self._capacity.write_full is WriteFull.DROP:
            return True
        records, size = self._capacity.records, self._capacity.bytes
        if records is not None and self._log.end - hold >= records:
            return False
        return size is None or self._log.bytes_from(hold) < size

    def keep(self) -> Keep:
        """What the capacity requires to remove, limited by the slowest reader unless `overwrite`."""
        records, size = self._capacity.records, self._capacity.bytes
        end, floor = self._log.end, self._log.floor
        wanted = floor if records is None else max(floor, end - records)
        if size is not None:
            wanted = max(wanted, min(self._log.offset_within(size), end))
        slowest = self._readers.slowest()
        hold = end if slowest is None else slowest.position
        if self._capacity.write_full is WriteFull.OVERWRITE:
            return Keep(wanted, hold, over=False)
        return Keep(min(wanted, hold), hold, over=wanted > hold)


def fit(chunk: Chunk, framing: Framing | None, topic: str, inc: int) -> tuple[Chunk | None, list[Letter]]:
    """The records that a log with this framing can store, and dead letters for the others; `None` if none fits."""
    if framing is None or framing.carries_all or chunk.is_framed_as(framing):
        return chunk, []
    data, times = chunk.data(), chunk.ts_ms
    unfit = framing.unfit(data)
    if unfit is None:
        return chunk, []
    letters: list[Letter] = []
    detail = f'topic "{topic}" keeps records in framing "{framing.key[0]}", which can\'t hold this one'
    for index in np.flatnonzero(unfit):
        ts_ms = times if isinstance(times, int) else int(times[index])
        bad = data[int(index)].as_py()
        letters.append(Letter("unfit", detail, "store", "", bad, topic=topic, inc=inc, ts_ms=ts_ms))
    kept = ~unfit
    data = data.filter(pa.array(kept))
    times = times if isinstance(times, int) else times[kept]
    return Chunk(data, len(data), times) if len(data) else None, letters


def lifted(chunk: Chunk, last_ts: int) -> Chunk:
    """The same records with non-decreasing ts_ms. The chunk is not changed, since other topics may share it."""
    times = chunk.ts_ms
    if isinstance(times, int):
        return chunk if times >= last_ts else Chunk(chunk.payload, chunk.count, last_ts, chunk.framing)
    raised = np.maximum.accumulate(np.maximum(times, last_ts))
    return Chunk(chunk.payload, chunk.count, raised, chunk.framing)
