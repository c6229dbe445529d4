"""The `agg` view: one candidate with aggregates of all records, independent of how they are batched."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.cursor import Agg, Capabilities, Code, Cursor, Program, Step
from gauss.contracts.expression import Kind
from gauss.scan.binding import Binding
from gauss.scan.outputs import lengths
from gauss.scan.program.columns import TYPES, WIDE
from gauss.scan.program.fuel import FIELD, ROW, Unread

ROWS, BYTES = 65_536, 4 << 20
"""Limits of one internal read."""


def row_cost(binding: Binding) -> int:
    """Fuel per candidate, without the decoded bytes."""
    return ROW + FIELD * len(binding.bound.fields)


class AggCursor:
    """Reads a snapshot to its end in the first step and returns one row."""

    def __init__(self, cursor: Cursor, binding: Binding, program: Program, limits: Capabilities) -> None:
        assert isinstance(program.view, Agg)
        self.pinned_version = cursor.pinned_version
        self.cursor = cursor
        self._binding = binding
        self._asked = program.view.aggregates
        self._limits = limits
        self._unread = Unread(row_cost(binding))
        self._charged = self._rows = 0
        self._values: dict[str, list[pa.Array]] = {name: [] for name in binding.bound.fields}
        self._batch: pa.RecordBatch | None = None
        self._given = False

    @property
    def position(self) -> int:
        return self.cursor.position

    @property
    def hold(self) -> int:
        return self.cursor.hold

    def charged(self) -> int:
        """Fuel spent since the last call."""
        before, self._charged = self._charged, self._unread.spent
        return self._charged - before

    def next(self, step: Step) -> Code:  # noqa: ARG002 - one row fits any limit
        self._batch = None
        if self._given:
            return Code.INVALID
        while (code := self.cursor.next(self._piece())) is Code.OK:
            candidates = self.cursor.read()[1]
            if isinstance(candidates, list):  # only a count: no field is decoded
                count = sum(entry.chunk.count for entry in candidates)
                code = self._pay(count, None)
                self._rows += count
            else:
                assert isinstance(candidates, pa.RecordBatch)
                sizes = lengths(candidates.column("data")) if self._binding.decoded else None
                if (code := self._pay(candidates.num_rows, sizes)) is Code.OK:
                    self._add(candidates)
            if code is not Code.OK:
                return code
        if code is not Code.INVALID:
            return code
        self._given = True
        values = {name: self._value(what, of) for name, what, of in self._asked}
        self._batch = pa.RecordBatch.from_pylist([values], self._schema(values))
        return Code.OK

    def _piece(self) -> Step:
        """A step of as many rows as the remaining fuel allows, plus one that shows whether the scan exceeds it."""
        return Step(min(ROWS, self._unread.affordable(self._limits.max_fuel_scan) + 1), BYTES, fill=False)

    def _pay(self, rows: int, sizes: np.ndarray | None) -> Code:
        """Charges fuel for candidates before they are decoded."""
        each = np.zeros(rows, np.int64) if sizes is None else sizes.astype(np.int64)
        admitted, over = self._unread.admit(
            rows, int(each.sum()), lambda: each, self._limits.max_fuel_item, self._limits.max_fuel_scan
        )
        self._unread.add(admitted, int(each[:admitted].sum()))
        return Code.OK if over is None else Code.REJECTED

    def _add(self, candidates: pa.RecordBatch) -> None:
        fields, _, _ = self._binding.decode(candidates)
        self._rows += fields.num_rows
        for name, parts in self._values.items():
            parts.append(fields.column(name))

    def _value(self, what: str, of: str) -> Any:
        if what == "count":
            return self._rows
        kind = self._binding.bound.fields[of]
        parts = self._values[of]
        column = pa.chunked_array(parts, parts[0].type).drop_null() if parts else pa.chunked_array([], TYPES[kind])
        if not len(column):
            return None
        if what in ("min", "max"):
            found = (pc.min if what == "min" else pc.max)(column).as_py()
            return int(found) if kind is Kind.INT else pa.array([found]).cast(TYPES[kind])[0].as_py()
        total = _exact_sum(column) if kind is Kind.INT else _rounded_sum(column)
        return total if total is None or what == "sum" else total / len(column)

    def _schema(self, values: dict[str, Any]) -> pa.Schema:
        kinds = self._binding.bound.fields

        def type_of(name: str, what: str, of: str) -> pa.DataType:
            if what == "count":
                return TYPES[Kind.INT]
            kind = Kind.NUMBER if what == "avg" else kinds[of]
            if kind is Kind.INT and not -(1 << 63) <= (values[name] or 0) < 1 << 63:
                return WIDE
            return TYPES[kind]

        return pa.schema([pa.field(name, type_of(name, what, of)) for name, what, of in self._asked])

    def read(self) -> tuple[Code, pa.RecordBatch | None]:
        return (Code.INVALID if self._batch is None else Code.OK), self._batch

    def close(self) -> None:
        self._given, self._batch, self._values = True, None, {}
        self.cursor.close()


def _exact_sum(column: pa.ChunkedArray) -> int:
    """Exact sum of integers of any size."""
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        return sum(map(int, column.to_pylist()))
    total = 0
    for part in column.chunks:
        values = np.asarray(part).astype(np.int64)
        total += (int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum())  # neither half can overflow
    return total


def _rounded_sum(column: pa.ChunkedArray) -> float | None:
    """Sum of doubles, rounded once, since a sum of sums would depend on the batches. `None` on overflow."""
    try:
        total = math.fsum(np.asarray(column.cast(pa.float64(), safe=False)).tolist())
    except (OverflowError, ValueError):
        return None
    return total if math.isfinite(total) else None
