"""Records that a Kafka topic refuses because of their size: the others are written without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from gauss.clients.kafka.outgoing import record_sizes
from gauss.clients.kafka.producer import BATCH_BYTES, Compression, Producer


class Fitting:
    """The records of a write, without those that are left out.

    Only the brokers know how large a record is once it is compressed. With one that they refuse all are left out that
    compress to no less: a transaction fails at the first of them, so that each would cost another one.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch], compression: Compression) -> None:
        self.batches = list(batches)
        self.limit: int | None = None
        """Records that compress to this size, or to more, are left out."""
        self._compression = compression

    def refuse(self, number: int, batch_bytes: int) -> list[pa.RecordBatch]:
        """Leaves out the record with this number, and all that compress to no less; returns them. Returns none if it
        was refused in a batch with others, so that it may fit into a smaller one."""
        for batch in self.batches:
            if number < batch.num_rows:
                if _is_alone(record_sizes(batch)[number], batch_bytes):
                    return self.leave_out(self._compressed(batch, number))
                return []
            number -= batch.num_rows
        return []

    def leave_out(self, limit: int) -> list[pa.RecordBatch]:
        """Leaves out all records that compress to this size or more; returns them."""
        self.limit, given, self.batches = limit, self.batches, []
        large: list[pa.RecordBatch] = []
        for batch in given:
            out = np.zeros(batch.num_rows, bool)
            for row in np.flatnonzero(record_sizes(batch) >= limit).tolist():
                out[row] = self._compressed(batch, row) >= limit
            large += [batch.filter(pa.array(out))] if out.any() else []
            self.batches.append(batch.filter(pa.array(~out)) if out.any() else batch)
        return large

    def _compressed(self, batch: pa.RecordBatch, row: int) -> int:
        """Size of a record whose key and data are compressed, if that makes it smaller."""
        size = int(record_sizes(batch)[row])
        if self._compression == "none":
            return size
        names = [name for name in ("key", "data") if name in batch.schema.names]
        plain = b"".join(batch.column(name)[row].as_py() or b"" for name in names)
        return size - max(0, len(plain) - len(pa.compress(plain, self._compression, asbytes=True)))


def write_all(
    opened: Callable[[int], Producer],
    topic: str,
    batches: Sequence[pa.RecordBatch],
    chosen: Callable[[pa.RecordBatch], np.ndarray],
) -> list[pa.RecordBatch]:
    """Writes records without a transaction; returns those that are too large. All others are acknowledged.

    `opened` returns a producer whose batches are not larger than so many bytes, `chosen` the partitions of records.
    """
    most, refused = BATCH_BYTES, list[pa.RecordBatch]()
    left = list(batches)
    while left:
        producer, numbers = opened(most), list[int]()
        first, producer.on_too_large = producer.written, numbers.append
        for batch in left:
            producer.write(topic, batch, chosen(batch))
        producer.flush()
        failed = _taken(left, np.sort(np.array(numbers, np.int64)) - first)
        alone = [_is_alone(record_sizes(batch), producer.batch_bytes) for batch in failed]
        refused += _filtered(failed, alone)
        left = _filtered(failed, [~mask for mask in alone])  # they may fit into smaller batches
        most = max(1, producer.batch_bytes // 2)
    return refused


def _is_alone(size: np.ndarray, batch_bytes: int) -> np.ndarray:
    """Whether records of these sizes are batches by themselves."""
    return np.asarray((size > batch_bytes) | (batch_bytes == 1))


def _taken(batches: Iterable[pa.RecordBatch], numbers: np.ndarray) -> list[pa.RecordBatch]:
    """The records with these ascending numbers, counted over all batches."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        count = int(np.searchsorted(numbers, batch.num_rows))
        found += [batch.take(pa.array(numbers[:count]))] if count else []
        numbers = numbers[count:] - batch.num_rows
    return found


def _filtered(batches: Iterable[pa.RecordBatch], masks: Iterable[np.ndarray]) -> list[pa.RecordBatch]:
    return [batch.filter(pa.array(mask)) for batch, mask in zip(batches, masks, strict=True) if mask.any()]
