"""The `agg` view: one candidate made of all others, the same whatever the batches in which they come."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.cursor import Agg, Code, Cursor, Program, Step
from gauss.scan.binding import Binding
from gauss.scan.program.columns import TYPES
from gauss.scan.program.fuel import FIELD, unread
from gauss.scan.program.ir import Kind

STEP = Step(65_536, 4 << 20)


class AggCursor:
    """Reads a snapshot to its end at the first step and gives one row."""

    def __init__(self, cursor: Cursor, binding: Binding, program: Program) -> None:
        assert isinstance(program.view, Agg)
        self.pinned_version = cursor.pinned_version
        self.fuel = 0
        self.cursor = cursor
        self._binding = binding
        self._asked = program.view.aggregates
        self._values: dict[str, list[pa.Array]] = {name: [] for name in binding.bound.fields}
        self._batch: pa.RecordBatch | None = None
        self._given = False

    @property
    def position(self) -> int:
        return self.cursor.position

    @property
    def hold(self) -> int:
        return self.cursor.hold

    def next(self, step: Step) -> Code:  # noqa: ARG002 - one row fits any
        self._batch = None
        if self._given:
            return Code.INVALID
        rows = size = 0
        while (code := self.cursor.next(STEP)) is Code.UNSET:
            candidates = self.cursor.read()[1]
            if isinstance(candidates, list):  # nobody looks inside the records: they are only counted
                rows += sum(entry.chunk.count for entry in candidates)
                continue
            assert isinstance(candidates, pa.RecordBatch)
            fields, _, sizes = self._binding.decode(candidates)
            rows += fields.num_rows
            size += 0 if sizes is None else int(sizes.sum())
            for name, parts in self._values.items():
                parts.append(fields.column(name))
        if code is not Code.INVALID:
            return code
        self.fuel = unread(rows, size) + FIELD * rows * len(self._values)
        self._given = True
        self._batch = pa.RecordBatch.from_pylist(
            [{name: self._value(what, of, rows) for name, what, of in self._asked}], self._schema()
        )
        return Code.UNSET

    def _value(self, what: str, of: str, rows: int) -> Any:
        if what == "count":
            return rows
        kind = self._binding.bound.fields[of]
        parts = self._values[of]
        column = pa.chunked_array(parts, parts[0].type).drop_null() if parts else pa.chunked_array([], TYPES[kind])
        if not len(column):
            return None
        if what in ("min", "max"):
            return (pc.min if what == "min" else pc.max)(column).cast(TYPES[kind]).as_py()
        # Rounded once: a sum of sums would depend on the batches.
        try:
            total = math.fsum(np.asarray(column.cast(pa.float64())).tolist())
        except (OverflowError, ValueError):  # beyond a double, as everywhere: null
            return None
        return total if what == "sum" else total / len(column)

    def _schema(self) -> pa.Schema:
        kinds = self._binding.bound.fields

        def type_of(what: str, of: str) -> pa.DataType:
            if what == "count":
                return TYPES[Kind.INT]
            return TYPES[Kind.NUMBER if what in ("sum", "avg") else kinds[of]]

        return pa.schema([pa.field(name, type_of(what, of)) for name, what, of in self._asked])

    def read(self) -> tuple[Code, pa.RecordBatch | None]:
        return (Code.INVALID if self._batch is None else Code.UNSET), self._batch

    def close(self) -> None:
        self._given, self._batch, self._values = True, None, {}
        self.cursor.close()
