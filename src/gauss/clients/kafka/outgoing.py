"""Arrow batches as the columns that `produce_loop` writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.clients.kafka.produce_loop import (
    AT_DATA,
    AT_KEYS,
    AT_NAMES,
    AT_VALUES,
    AT_VUS,
    NO_TIME,
    VUS,
    Columns,
    key_hashes,
)
from gauss.model.batch import value_buffer, value_offsets
from gauss.model.errors import ProtocolError


class _Values(NamedTuple):
    data: np.ndarray
    ends: np.ndarray
    valid: np.ndarray


TOGETHER = 1_024
"""Records without a key that go to the same partition: a broker answers each partition of a transaction by itself."""


class Partitioning:
    """Chooses the partition of each record: by its key as Java's producer does, or round robin. Records without a key
    go to one partition after the other, many at a time."""

    def __init__(self, partitions: int, *, by_key: bool = True) -> None:
        self.partitions = partitions
        self._by_key = by_key
        self._next = 0

    def of(self, batch: pa.RecordBatch) -> np.ndarray:
        """The partition of each record: that of the column `partition`, else the chosen one."""
        if (given := _column(batch, "partition")) is not None:
            return np.asarray(given.to_numpy(zero_copy_only=False), np.int32)
        return self._choose(batch.num_rows, _values(_column(batch, "key"), batch.num_rows))

    def _choose(self, count: int, keys: _Values) -> np.ndarray:
        step = TOGETHER if self._by_key else 1
        chosen = ((self._next + np.arange(count) // step) % self.partitions).astype(np.int32)
        self._next = (self._next + -(-count // step)) % self.partitions
        if self._by_key and keys.valid.any():
            key_hashes()(keys.data, keys.ends, keys.valid, self.partitions, chosen)
        return chosen


def outgoing(batch: pa.RecordBatch, partitions: Partitioning | np.ndarray) -> Columns:
    """The columns of a batch with `data` and, if present, `key`, `headers`, `ts_ms` and `partition`. The batch must
    outlive them.

    `partitions`: how they are chosen if there is no column, or the partition of each record.
    """
    count = batch.num_rows
    keys = _values(_column(batch, "key"), count)
    data = _values(_column(batch, "data"), count)
    header_ends, names, values = _headers(_column(batch, "headers"), count)
    times = _column(batch, "ts_ms")
    chosen = partitions.of(batch) if isinstance(partitions, Partitioning) else partitions
    if len(chosen) != count:
        raise ProtocolError(f"expected a partition for each of {count} records, found {len(chosen)}")
    vus = np.zeros(VUS, np.int64)
    places = np.zeros(5, np.int64)
    for index, array in (
        *((AT_DATA, data.data), (AT_KEYS, keys.data), (AT_NAMES, names.data), (AT_VALUES, values.data)),
        (AT_VUS, vus),
    ):
        places[index] = array.ctypes.data
    return Columns(
        places=places,
        vus=vus,
        partitions=np.ascontiguousarray(chosen, np.int32),
        times=np.full(count, NO_TIME) if times is None else times.to_numpy(zero_copy_only=False).astype(np.int64),
        data_ends=data.ends,
        data_valid=data.valid,
        key_ends=keys.ends,
        key_valid=keys.valid,
        header_ends=header_ends,
        name_ends=names.ends,
        value_ends=values.ends,
        value_valid=values.valid,
    )


def record_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Bytes of each record: its data, key and headers."""
    columns = outgoing(batch, np.zeros(batch.num_rows, np.int32))
    sizes = np.diff(columns.data_ends) * columns.data_valid + np.diff(columns.key_ends) * columns.key_valid
    for ends in (columns.name_ends, columns.value_ends):
        sizes = sizes + np.diff(ends[columns.header_ends])
    return np.asarray(sizes, np.int64)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    return batch.column(index) if index >= 0 else None


def _values(array: pa.Array | None, count: int) -> _Values:
    """The values of a binary or text column; without one, nulls."""
    if array is None or not len(array):
        return _Values(np.zeros(1, np.uint8), np.zeros(count + 1, np.int64), np.zeros(count, np.uint8))
    data = np.frombuffer(value_buffer(array), np.uint8)
    # An empty value is known from a null by its address, which must not be 0.
    return _Values(data if len(data) else np.zeros(1, np.uint8), value_offsets(array), _valid(array))


def _valid(array: pa.Array) -> np.ndarray:
    if not array.null_count:
        return np.ones(len(array), np.uint8)
    valid: np.ndarray = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    return valid


def _headers(lists: pa.ListArray | None, count: int) -> tuple[np.ndarray, _Values, _Values]:
    if lists is None or not len(lists) or not len(lists.flatten()):
        none = _values(None, 0)
        return np.zeros(count + 1, np.int64), none, none
    items = lists.flatten()  # without what nulls and slices hide
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), out=ends[1:])
    names, values = items.flatten()
    return ends, _values(names, len(items)), _values(values, len(items))
