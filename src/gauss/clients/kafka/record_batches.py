"""Records of Kafka as Arrow batches, and the buffers in which the compiled loop builds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gauss.clients.kafka.copy_loop import (
    AT_CELLS,
    AT_DATA,
    AT_HEAD,
    AT_KEYS,
    AT_NAMES,
    AT_VALUES,
    GROW_DATA,
    GROW_HEADERS,
    GROW_KEYS,
    GROW_NAMES,
    HEADERS,
    NEEDED,
    ROWS,
    STATE_WORDS,
    Buffers,
)
from gauss.clients.kafka.library import MESSAGE_WORDS
from gauss.model.batch import KEYED_SCHEMA

SCHEMA = KEYED_SCHEMA.set(2, pa.field("data", pa.binary()))
"""`KEYED_SCHEMA`, but `data` may be null: a tombstone. Whoever reads a topic decides what becomes of it. Records
without headers have an empty list; a timestamp that is missing is -1."""
_HEADER = SCHEMA.field("headers").type.value_type
_FIRST_BYTES, _FIRST_HEADERS = 1 << 16, 1 << 10

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, time, data, key and headers of a record."""


class BatchBuffers:
    """Buffers of one batch at a time, used again for the next."""

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._data_bytes = max_bytes
        self._data = pa.allocate_buffer(max_bytes)
        self.arrays = Buffers(
            state=np.zeros(STATE_WORDS, np.int64),
            head=np.zeros(MESSAGE_WORDS, np.int64),
            cells=np.zeros(4, np.int64),
            offsets=np.zeros(max_rows, np.int64),
            times=np.zeros(max_rows, np.int64),
            data=np.frombuffer(self._data, np.uint8),
            data_ends=np.zeros(max_rows + 1, np.int32),
            data_valid=np.zeros(max_rows, np.uint8),
            keys=np.zeros(_FIRST_BYTES, np.uint8),
            key_ends=np.zeros(max_rows + 1, np.int32),
            key_valid=np.zeros(max_rows, np.uint8),
            header_ends=np.zeros(max_rows + 1, np.int32),
            names=np.zeros(_FIRST_BYTES, np.uint8),
            name_ends=np.zeros(_FIRST_HEADERS + 1, np.int32),
            values=np.zeros(_FIRST_BYTES, np.uint8),
            value_ends=np.zeros(_FIRST_HEADERS + 1, np.int32),
            value_valid=np.zeros(_FIRST_HEADERS, np.uint8),
        )
        self._place()

    def _place(self) -> None:
        found = self.arrays
        for index, array in (
            *((AT_DATA, found.data), (AT_KEYS, found.keys), (AT_NAMES, found.names), (AT_VALUES, found.values)),
            *((AT_HEAD, found.head), (AT_CELLS, found.cells)),
        ):
            found.state[index] = array.ctypes.data

    @property
    def rows(self) -> int:
        return int(self.arrays.state[ROWS])

    def grow(self, what: int) -> None:
        """Enlarges the buffer that the loop found too small."""
        found, needed = self.arrays, int(self.arrays.state[NEEDED])
        if what == GROW_DATA:  # only before the first row
            self._new_data(needed)
        elif what == GROW_HEADERS:
            self.arrays = found._replace(
                name_ends=_doubled(found.name_ends),
                value_ends=_doubled(found.value_ends),
                value_valid=_doubled(found.value_valid),
            )
        else:
            name = "keys" if what == GROW_KEYS else "names" if what == GROW_NAMES else "values"
            self.arrays = found._replace(**{name: _doubled(getattr(found, name), needed)})
        self._place()

    def _new_data(self, size: int) -> None:
        self._data = pa.allocate_buffer(size)
        self.arrays = self.arrays._replace(data=np.frombuffer(self._data, np.uint8))

    def take(self) -> pa.RecordBatch:
        """The batch, and empties the buffers."""
        found, rows, headers = self.arrays, self.rows, int(self.arrays.state[HEADERS])
        columns = [
            pa.array(found.offsets[:rows].copy()),
            pa.array(found.times[:rows].copy()),
            _binary(rows, self._taken_data(int(found.data_ends[rows])), found.data_ends, found.data_valid),
            _binary(rows, _copy(found.keys[: found.key_ends[rows]]), found.key_ends, found.key_valid),
            self._header_lists(rows, headers),
        ]
        found.state[ROWS] = found.state[HEADERS] = 0
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def _taken_data(self, used: int) -> pa.Buffer:
        """Without a copy if most of the buffer is used."""
        if 2 * used < len(self._data):
            return _copy(self.arrays.data[:used])
        taken = self._data.slice(0, used)
        self._new_data(self._data_bytes)
        self._place()
        return taken

    def _header_lists(self, rows: int, headers: int) -> pa.Array:
        found = self.arrays
        names = _binary(headers, _copy(found.names[: found.name_ends[headers]]), found.name_ends, None, pa.string())
        values = _binary(headers, _copy(found.values[: found.value_ends[headers]]), found.value_ends, found.value_valid)
        items = pa.StructArray.from_arrays([_valid_names(names), values], fields=list(_HEADER))
        return pa.Array.from_buffers(
            SCHEMA.field("headers").type, rows, [None, _copy(found.header_ends[: rows + 1])], children=[items]
        )


def plain_batch(rows: list[Row]) -> pa.RecordBatch:
    """The batch of records that are Python objects."""
    offsets, times, data, keys, headers = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    lists = [[{"key": key, "value": value} for key, value in each] for each in headers]
    columns = [
        pa.array(column, field.type) for column, field in zip((offsets, times, data, keys, lists), SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _binary(
    count: int, data: pa.Buffer, ends: np.ndarray, valid: np.ndarray | None, kind: pa.DataType | None = None
) -> pa.Array:
    nulls = None
    if valid is not None and not valid[:count].all():
        nulls = pa.py_buffer(np.packbits(valid[:count], bitorder="little"))
    return pa.Array.from_buffers(kind or pa.binary(), count, [nulls, _copy(ends[: count + 1]), data])


def _valid_names(names: pa.StringArray) -> pa.StringArray:
    """Names of headers are UTF-8 by convention only."""
    try:
        names.validate(full=True)
        return names
    except pa.ArrowInvalid:
        return pa.array([each.as_buffer().to_pybytes().decode(errors="replace") for each in names], pa.string())


def _copy(used: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(used.copy())


def _doubled(array: np.ndarray, needed: int = 0) -> np.ndarray:
    grown = np.zeros(max(needed, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    return grown
