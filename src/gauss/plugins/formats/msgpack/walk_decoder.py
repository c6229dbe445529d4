"""Decodes batches of msgpack with the compiled walk."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType
from gauss.plugins.formats.cells import Cells, ColumnTypes, Names, column_type
from gauss.plugins.formats.columns import bytes_of
from gauss.plugins.formats.msgpack import walk


class PlainRows(NamedTuple):
    """The rows of plain records, and the indexes of these records."""

    rows: pa.RecordBatch
    kept: np.ndarray


class MsgpackWalkDecoder:
    """Decodes the declared fields if all have plain names and types that the walk can read."""

    def __init__(self, types: dict[str, FieldType]) -> None:
        self._fields = types
        self._arrow = {name: arrow_type(type_) for name, type_ in types.items()}
        known = [found for type_ in types.values() if (found := column_type(type_)) is not None]
        paths = any(name.startswith("$.") for name in types)
        self._able = bool(types) and len(known) == len(types) and not paths
        self._types = ColumnTypes.of(known)
        names = [name.encode() for name in types]
        sizes = np.array([len(name) for name in names], np.int64)
        text, first = np.frombuffer(b"".join(names), np.uint8), np.array([0, len(names)], np.int64)
        self._names = Names(text, first, np.cumsum(sizes) - sizes, sizes)

    def decode(self, data: pa.BinaryArray, fields: pa.Schema) -> PlainRows | None:
        """The requested columns; None if the walk is not compiled yet or can't read one of them."""
        if not self._able or any(self._arrow.get(field.name) != field.type for field in fields):
            return None
        function = walk.WALK.compiled(len(data), data.nbytes, lambda made: self._walk(made, data.slice(0, 1)))
        if function is None:
            return None
        cells = self._walk(function, data)
        # Every declared field is checked, requested or not: a bad record is bad for every reader.
        columns = {
            name: cells.column(index, type_, self._arrow[name])
            for index, (name, type_) in enumerate(self._fields.items())
        }
        kept = np.flatnonzero(cells.suspects == 0)
        rows = pa.RecordBatch.from_arrays([columns[name] for name in fields.names], schema=fields)
        return PlainRows(rows if len(kept) == len(data) else rows.take(pa.array(kept)), kept)

    def _walk(self, function: Callable[[walk.MsgpackWalk], None], data: pa.BinaryArray) -> Cells:
        cells = Cells.of(*bytes_of(data), self._types)
        left, maps = np.zeros(walk.MAX_DEPTH, np.int64), np.zeros(walk.MAX_DEPTH, np.int64)
        function(walk.MsgpackWalk(cells, self._names, left, maps, np.zeros(len(self._fields), np.int64)))
        return cells
