"""Records read from the brokers, kept for the next readers of the same place."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from gauss.clients.kafka.errors import OffsetOutOfRange
from gauss.clients.kafka.reading import Range, RangeReader
from gauss.contracts.chunk import Chunk
from gauss.model.batch import value_offsets
from gauss.model.errors import Collected, GaussError

AHEAD_BYTES = 16 << 20
LEAST_AHEAD = 256 << 10
CACHE_BYTES = 64 << 20
"""Memory for the records of one topic."""
MOST_SEGMENTS = 64
"""Segments of one partition: those of a live tail are small."""
PARALLEL = 4
"""Partitions read at once, with as many connections."""
Place = tuple[int, int]
"""A partition and an offset in it."""
GUESSED_BYTES = 256
"""Size of a record before one was seen."""


class Segment:
    """The records [start, stop) of a partition that exist."""

    def __init__(self, partition: int, start: int, stop: int, batches: Sequence[pa.RecordBatch] = ()) -> None:
        self.partition, self.start, self.stop = partition, start, stop
        self.checked = False
        """Whether the topic was still the same after this was read."""
        self._data = without_nulls(_joined(batches, "data", pa.binary()))
        self._offsets = _joined(batches, "offset", pa.int64()).to_numpy()
        self._times = np.maximum(_joined(batches, "ts_ms", pa.int64()).to_numpy(), 0)  # -1: without one
        self._sizes = value_offsets(self._data)
        self._gaps = np.flatnonzero(np.diff(self._offsets) != 1) + 1
        self.count, self.data_bytes = len(self._offsets), int(self._data.nbytes)
        self.nbytes = self.data_bytes + 24 * self.count + 1024

    def taken(self, start: int, stop: int, max_bytes: int) -> tuple[list[tuple[int, Chunk]], bool]:
        """The records of [start, stop), up to about `max_bytes` but at least one, in chunks of consecutive offsets,
        each with the offset of its first; and whether these are all."""
        first, last = (int(each) for each in np.searchsorted(self._offsets, [start, stop]))
        if first == last:
            return [], True
        fits = int(np.searchsorted(self._sizes, self._sizes[first] + max_bytes, side="right")) - 1
        end = min(last, max(first + 1, fits))
        inner = self._gaps[slice(*np.searchsorted(self._gaps, [first + 1, end]))].tolist()
        found = [
            (int(self._offsets[begin]), Chunk(self._data[begin:until], until - begin, self._times[begin:until]))
            for begin, until in pairwise([first, *inner, end])
        ]
        return found, end == last


def _joined(batches: Sequence[pa.RecordBatch], name: str, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([batch.column(name) for batch in batches]) if batches else pa.array([], kind)


class ReadAhead:
    """Reads the partitions of one incarnation in larger ranges than are asked for. Usable from several threads."""

    def __init__(self, reader: RangeReader, topic: str, topic_id: str, ended: threading.Event) -> None:
        """`ended`: set when the topic is closed or made anew, so that no read waits for records that never come."""
        self._reader, self._topic, self._topic_id, self._ended = reader, topic, topic_id, ended
        self._lock = threading.Lock()
        self._kept: dict[int, list[Segment]] = {}
        self._used: OrderedDict[Segment, None] = OrderedDict()
        """All segments, the one used last at the end."""
        self._bytes = 0
        self._reading: dict[int, threading.Lock] = {}
        self._seen = self._seen_bytes = 0
        self._pool: ThreadPoolExecutor | None = None

    def mean_bytes(self) -> float:
        """Mean size of the records seen lately."""
        with self._lock:
            return self._seen_bytes / self._seen if self._seen else GUESSED_BYTES

    def note(self, count: int, size: int) -> None:
        """Counts records for the mean size."""
        with self._lock:
            if self._seen > 1_000_000:  # older records count less
                self._seen, self._seen_bytes = self._seen // 2, self._seen_bytes // 2
            self._seen += count
            self._seen_bytes += size

    def at(self, partition: int, offset: int, end: int, partitions: int) -> Segment:
        """A segment that has the offset, read up to `end` at most."""
        if found := self._find(partition, offset):
            return found
        with self._lock:
            reading = self._reading.setdefault(partition, threading.Lock())
        with reading:
            found = self._find(partition, offset)  # another reader was faster
            return found or self._keep(self._read(partition, offset, end, partitions))

    def prepare(self, wanted: Iterable[Place], ends: Mapping[int, int]) -> None:
        """Reads the segments of several partitions at once: each waits some milliseconds for its broker. An error is
        raised by `at`."""
        missing = [place for place in wanted if self._find(*place) is None]
        if len(missing) > 1:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(PARALLEL, "kafka reads")
            with suppress(RuntimeError, CancelledError):  # closed meanwhile, which `at` says
                list(self._pool.map(partial(self._try, ends), missing))

    def _try(self, ends: Mapping[int, int], place: Place) -> None:
        partition, offset = place
        with suppress(GaussError):
            self.at(partition, offset, ends[partition], len(ends))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _find(self, partition: int, offset: int) -> Segment | None:
        with self._lock:
            for segment in reversed(self._kept.get(partition, [])):
                if segment.start <= offset < segment.stop:
                    self._used.move_to_end(segment)
                    return segment
        return None

    def _keep(self, segment: Segment) -> Segment:
        with self._lock:
            kept = self._kept.setdefault(segment.partition, [])
            kept.append(segment)
            self._used[segment] = None
            self._bytes += segment.nbytes
            if len(kept) > MOST_SEGMENTS:
                self._drop(kept[0])
            while self._bytes > CACHE_BYTES and len(self._used) > 1:
                self._drop(next(iter(self._used)))
        return segment

    def _drop(self, segment: Segment) -> None:
        self._kept[segment.partition].remove(segment)
        del self._used[segment]
        self._bytes -= segment.nbytes

    def _read(self, partition: int, start: int, end: int, partitions: int) -> Segment:
        most = min(AHEAD_BYTES, max(LEAST_AHEAD, CACHE_BYTES // (2 * partitions)))
        stop = min(end, start + max(1_000, int(most / self.mean_bytes())))
        batches: list[pa.RecordBatch] = []
        size = 0
        reading = self._reader.read(Range(self._topic, partition, start, stop, self._topic_id), stop=self._ended)
        try:
            for batch in reading:
                batches.append(batch)
                size += batch.column("data").nbytes
                if size >= most:
                    stop = batch.column("offset")[-1].as_py() + 1
                    break
        except OffsetOutOfRange as error:
            if not batches:
                if error.earliest <= start:
                    raise
                return Segment(partition, start, min(error.earliest, stop))  # deleted by age
            stop = batches[-1].column("offset")[-1].as_py() + 1  # the rest was deleted while it was read
        finally:
            getattr(reading, "close", lambda: None)()
        if self._ended.is_set():
            raise Collected(f"Kafka: topic {self._topic} was closed, or deleted and made anew, while it was read")
        found = Segment(partition, start, stop, batches)
        self.note(found.count, found.data_bytes)
        return found


def without_nulls(data: pa.BinaryArray) -> pa.BinaryArray:
    """Records without data, which delete a key in a compacted topic, as records of zero bytes."""
    return data.fill_null(b"") if data.null_count else data
