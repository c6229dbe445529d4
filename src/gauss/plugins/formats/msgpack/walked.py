"""Columns by the walk over plain maps, once it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType
from gauss.plugins.formats.columns import bytes_of
from gauss.plugins.formats.msgpack import walk
from gauss.plugins.formats.walked import Values, facts


class Found(NamedTuple):
    """The columns of plain records, and which records these are."""

    rows: pa.RecordBatch
    kept: np.ndarray


class Walked:
    """The walk over maps of some fields: plain names, each of a type that it knows."""

    def __init__(self, types: dict[str, FieldType]) -> None:
        self._types = types
        self._arrow = {name: arrow_type(type_) for name, type_ in types.items()}
        known = [facts(type_) for type_ in types.values()]
        self._able = bool(types) and None not in known and not any(name.startswith("$.") for name in types)
        if self._able:
            names = [name.encode() for name in types]
            sizes = [len(name) for name in names]
            starts = np.cumsum([0, *sizes[:-1]])
            self._tables = (
                np.frombuffer(b"".join(names), np.uint8),
                np.column_stack([starts, sizes]).astype(np.int64),
                *np.array(known, np.int64).T.copy(),
            )

    def decode(self, data: pa.BinaryArray, fields: pa.Schema) -> Found | None:
        """The asked columns; None: the walk is not there yet, or can't give one of them."""
        if not self._able or any(self._arrow.get(field.name) != field.type for field in fields):
            return None
        function = walk.WALK.compiled(len(data), data.nbytes, lambda made: self._walk(made, data.slice(0, 1)))
        if function is None:
            return None
        values, body = self._walk(function, data)
        # Every declared field is looked at, asked for or not: a record is bad for whoever reads it.
        columns = {
            name: values.column(index, type_, self._arrow[name], body)
            for index, (name, type_) in enumerate(self._types.items())
        }
        kept = np.flatnonzero(values.suspects == 0)
        rows = pa.RecordBatch.from_arrays([columns[name] for name in fields.names], schema=fields)
        return Found(rows if len(kept) == len(data) else rows.take(pa.array(kept)), kept)

    def _walk(self, function: Callable[..., Any], data: pa.BinaryArray) -> tuple[Values, np.ndarray]:
        offsets, body = bytes_of(data)
        values = Values(len(self._types), len(data))
        left, maps = np.zeros(walk.DEPTH, np.int64), np.zeros(walk.DEPTH, np.int64)
        seen = np.zeros(len(self._types), np.int64)
        function(body, offsets, *self._tables, *values.arrays(), left, maps, seen)
        return values, body
