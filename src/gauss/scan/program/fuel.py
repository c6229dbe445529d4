"""What a program costs: counted per candidate before anything runs, the same for rows and for columns.

A candidate's cost is `base + Σ weight(field) · bytes(field)`: every operation of every stage counts, whether or not an
earlier one drops the row, and texts count by the bytes that operations and results take of them. So a batch's costs
are one sum over Arrow offsets, and a row that would cost too much is known before it is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.scan.outputs import lengths, packed_size
from gauss.scan.program.columns import as_kind, is_text
from gauss.scan.program.ir import (
    Binary,
    Call,
    Expr,
    If,
    Kind,
    Kinds,
    Literal,
    Make,
    Path,
    Stage,
    Value,
    children,
    expressions,
    kind_of,
    walk,
)

Costs = np.ndarray[Any, np.dtype[np.int64]]
Lengths = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
"""Bytes per row; of an Arrow array's values in the type of its offsets."""

ROW = 8
"""A candidate, whatever is done with it."""
OPERATION = 8
FIELD = 4
"""Reading a field or a column."""
UNIT_SHIFT = 6
BYTES_PER_UNIT = 1 << UNIT_SHIFT
"""Bytes that move unread for one unit: chunks, and records that are decoded."""
PATTERN_BYTE = 4
"""What `test` takes per byte, and once more for every 8 characters of its pattern."""
MAX_COST = 1 << 40
"""Costs above are not told apart, so that sums of them stay whole."""

Size = dict[str, int]
"""Bytes as a sum of fields' bytes times a weight; `""` is a constant."""


@dataclass(frozen=True)
class Cost:
    """What a program takes for a candidate."""

    base: int
    weights: Mapping[str, int]
    """Units per byte of a field."""
    kinds: Kinds

    def row(self, row: Mapping[str, Any], data_bytes: int = 0) -> int:
        """The cost of a row of decoded fields; `data_bytes`: of the record that they were decoded from."""
        total = self.base + data_bytes // BYTES_PER_UNIT
        for name, weight in self.weights.items():
            total += weight * _row_bytes(row.get(name), self.kinds[name])
        return min(total, MAX_COST)

    def batch(self, batch: pa.RecordBatch, data_bytes: Lengths | None = None) -> Costs:
        """The cost of every row of a batch of decoded fields."""
        total: Costs | None = None
        if data_bytes is not None:
            total = data_bytes.astype(np.int64) >> UNIT_SHIFT
        for name, weight in self.weights.items():
            if (column := _text(batch.column(name), self.kinds[name])) is None:
                continue
            sizes = _lengths(column).astype(np.int64)
            if weight > 1:
                sizes *= weight
            if total is None:
                total = sizes
            else:
                total += sizes
        if total is None:
            return np.full(batch.num_rows, self.base, np.int64)
        total += self.base
        return np.minimum(total, MAX_COST, out=total)


class Toll:
    """What the rows of a batch cost: many together at once, each only when a limit is near."""

    def __init__(self, cost: Cost, fields: pa.RecordBatch, data_bytes: Lengths | None = None) -> None:
        self.rows = int(fields.num_rows)
        self._cost, self._fields, self._data_bytes = cost, fields, data_bytes
        self._units = None if data_bytes is None else data_bytes >> UNIT_SHIFT
        self._texts = [
            (weight, column)
            for name, weight in cost.weights.items()
            if (column := _text(fields.column(name), cost.kinds[name])) is not None
        ]
        self._above_base = self._sum(0, self.rows)
        self.whole = self.between(0, self.rows)

    def _sum(self, start: int, stop: int) -> int:
        """What is above the base, of rows that are each below the highest cost."""
        found = sum(weight * _bytes(column.slice(start, stop - start)) for weight, column in self._texts)
        if self._units is not None:
            # Lengths have their offsets' type, which holds their sum too: no wider one is needed.
            found += int(np.add.reduce(self._units[start:stop], dtype=self._units.dtype))
        return found

    def between(self, start: int, stop: int) -> int:
        """What the rows from `start` to `stop` cost together."""
        if self._cost.base + self._above_base > MAX_COST:
            return int(self.each()[start:stop].sum())
        above = self._above_base if stop - start == self.rows else self._sum(start, stop)
        return self._cost.base * (stop - start) + above

    def within(self, limit: int) -> bool:
        """Whether no row can cost more; False: some may."""
        base = self._cost.base
        if base + self._above_base <= limit:
            return True
        found = base + sum(weight * _longest(column) for weight, column in self._texts)
        if self._units is not None:
            found += int(self._units.max(initial=0))
        return found <= limit

    def each(self) -> Costs:
        """The cost of every row."""
        return self._cost.batch(self._fields, self._data_bytes)


def cost_of(stages: Sequence[Stage], scopes: Sequence[Kinds], fields: Kinds) -> Cost:
    """The cost of a checked program."""
    texts = (Kind.STRING, Kind.ANY, Kind.OPAQUE)
    seen: dict[str, Size] = {name: {name: 1} if kind in texts else {} for name, kind in fields.items()}
    base, weights = ROW, Size()
    for stage, kinds in zip(stages, scopes, strict=True):
        for node in (node for root in expressions(stage) for node in walk(root)):
            base += FIELD if isinstance(node, Path) else 0 if isinstance(node, Literal) else OPERATION
            _add(weights, _taken(node, kinds, seen))
        if isinstance(stage, Make):
            seen = {name: _size(expr, kinds, seen) for name, expr in stage.columns}
        elif isinstance(stage, Value):
            seen = {"": _size(stage.expr, kinds, seen)}
        if isinstance(stage, Make | Value):
            base += OPERATION
            for size in seen.values():
                _add(weights, size)
    return Cost(base + weights.pop("", 0), weights, fields)


def _taken(node: Expr, kinds: Kinds, seen: Mapping[str, Size]) -> Size:
    """The bytes that an operation goes over."""
    taken = Size()
    if isinstance(node, Binary | Call | If):
        per_byte = 1
        if isinstance(node, Call) and node.name == "test":
            pattern = node.arguments[0]
            assert isinstance(pattern, Literal) and isinstance(pattern.value, str)
            per_byte = PATTERN_BYTE + len(pattern.value) // 8
        for operand in children(node):
            _add(taken, _size(operand, kinds, seen), per_byte)
    return taken


def _size(node: Expr, kinds: Kinds, seen: Mapping[str, Size]) -> Size:
    """The bytes that a node's value has at most."""
    if kind_of(node, kinds) not in (Kind.STRING, Kind.ANY, Kind.OPAQUE):
        return {}
    match node:
        case Literal(value=str(value)):
            return {"": len(value.encode())}
        case Path():
            return seen[node.name]
        case Binary():
            parts: tuple[Expr, ...] = (node.left, node.right)
        case If():
            parts = (node.then, node.other)
        case Call(name="tostring") if kind_of(node.subject, kinds) is not Kind.STRING:
            return {"": 20}
        case Call():
            parts = (node.subject,)
        case _:
            return {}
    size = Size()
    for part in parts:
        _add(size, _size(part, kinds, seen))
    return size


def _add(total: Size, size: Size, times: int = 1) -> None:
    for name, weight in size.items():
        total[name] = total.get(name, 0) + weight * times


def _row_bytes(value: Any, kind: Kind) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    return len(value) if isinstance(value, bytes) and kind is not Kind.STRING else 0


def _text(column: pa.Array, kind: Kind) -> pa.Array | None:
    """The column if its bytes count."""
    column = as_kind(column, kind)
    held = column.type
    return column if is_text(held) or pa.types.is_binary(held) or pa.types.is_large_binary(held) else None


def _bytes(column: pa.Array) -> int:
    """The bytes of all texts of a column."""
    if not column.null_count and (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return packed_size(column)
    return int(_lengths(column).sum(dtype=np.int64))


def _longest(column: pa.Array) -> int:
    """The bytes of the longest text of a column, or a little more: what lies behind nulls counts too."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return int(lengths(column).max(initial=0))
    return int(_lengths(column).max(initial=0))


def _lengths(column: pa.Array) -> Lengths:
    """The bytes of each text of a column."""
    sizes = pc.binary_length(column)
    if sizes.null_count:
        sizes = pc.fill_null(sizes, 0)
    found: Lengths = sizes.to_numpy()
    return found


class Limit(Enum):
    """Which limit a candidate would go over."""

    ITEM = "item"  # the candidate's own: the position is kept
    SCAN = "scan"  # that of the whole scan: final


@dataclass
class Meter:
    """The fuel of one scan."""

    max_item: int
    max_scan: int
    spent: int = field(default=0)

    def admit(self, costs: Costs) -> tuple[int, Limit | None]:
        """How many of the next candidates may run, which are then paid for, and what stops the one after them."""
        whole = int(costs.sum())
        if self.spent + whole <= self.max_scan and costs.max(initial=0) <= self.max_item:
            self.spent += whole
            return len(costs), None
        total = np.cumsum(costs, dtype=np.int64)
        over = np.flatnonzero(costs > self.max_item)
        item = int(over[0]) if len(over) else len(costs)
        scan = int(np.searchsorted(total, self.max_scan - self.spent, side="right"))
        count = min(item, scan)
        if count:
            self.spent += int(total[count - 1])
        return count, Limit.SCAN if scan <= item else Limit.ITEM

    def admit_batch(self, toll: Toll) -> tuple[int, Limit | None]:
        """The same for a batch, of which each row is looked at only if a limit may be reached."""
        if self.spent + toll.whole <= self.max_scan and toll.within(self.max_item):
            self.spent += toll.whole
            return toll.rows, None
        return self.admit(toll.each())

    def admit_one(self, cost: int) -> Limit | None:
        """The same for one candidate: None means that it may run and is paid for."""
        if self.spent + cost > self.max_scan:
            return Limit.SCAN
        if cost > self.max_item:
            return Limit.ITEM
        self.spent += cost
        return None


class Unread:
    """The fuel of candidates that no expression reads: `row` for each, and a unit for every 64 bytes of all together,
    so that the sum does not depend on how they are cut."""

    def __init__(self, row: int = ROW) -> None:
        self.row = row
        self._rows = self._bytes = 0

    @property
    def spent(self) -> int:
        return self.row * self._rows + self._bytes // BYTES_PER_UNIT

    def add(self, rows: int, nbytes: int) -> None:
        self._rows += rows
        self._bytes += nbytes

    def affordable(self, most: int) -> int:
        """Candidates that `most` can pay for at the best: no more are worth fetching."""
        return max(0, most - self.spent) // self.row

    def admit(
        self, rows: int, nbytes: int, sizes: Callable[[], Lengths], max_item: int, max_scan: int
    ) -> tuple[int, Limit | None]:
        """How many of the next candidates may be taken, and the limit that the one after them would exceed. `sizes`
        gives the bytes of each, and is called only when a limit may be reached."""
        after = self.row * (self._rows + rows) + (self._bytes + nbytes) // BYTES_PER_UNIT
        if after <= max_scan and self.item(nbytes) <= max_item:
            return rows, None
        each = sizes().astype(np.int64)
        over = np.flatnonzero(each > (max_item - self.row) * BYTES_PER_UNIT)
        item = int(over[0]) if len(over) else rows
        total = self.row * np.arange(1, rows + 1) + (self._bytes + np.cumsum(each)) // BYTES_PER_UNIT
        scan = int(np.searchsorted(total, max_scan - self.row * self._rows, side="right"))
        if min(item, scan) == rows:
            return rows, None
        return min(item, scan), Limit.SCAN if scan <= item else Limit.ITEM

    def item(self, nbytes: int) -> int:
        """What one candidate of so many bytes adds at the most."""
        return self.row - -nbytes // BYTES_PER_UNIT
