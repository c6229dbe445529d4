"""Fuel: the cost of a program per candidate, computed before anything runs.

The cost of a candidate is `base + Σ weight(field) · bytes(field)`. Every operation of every stage counts, even if an
earlier stage drops the row; texts count by the bytes that operations read and results hold. The costs of a batch are
therefore a sum over Arrow offsets, and a row above the limit is found before it is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.expression import (
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
from gauss.scan.outputs import lengths, packed_size
from gauss.scan.program.columns import as_kind, is_text

Costs = np.ndarray[Any, np.dtype[np.int64]]
Lengths = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
"""Bytes per row, in the integer type of Arrow's offsets or wider."""

ROW = 8
"""Cost of a candidate by itself."""
OPERATION = 8
FIELD = 4
"""Cost of reading a field or a column."""
UNIT_SHIFT = 6
BYTES_PER_UNIT = 1 << UNIT_SHIFT
"""Bytes per unit of cost for chunks and for records that are decoded."""
PATTERN_BYTE = 4
"""Cost of `test` per byte, plus 1 for every 8 characters of its pattern."""
MAX_COST = 1 << 40
"""Upper bound of a row's cost, so that sums do not overflow."""

Size = dict[str, int]
"""A size as a weighted sum of the fields' bytes; `""` is the constant term."""


@dataclass(frozen=True)
class Cost:
    """Cost of a program per candidate."""

    base: int
    weights: Mapping[str, int]
    """Units per byte of a field."""
    kinds: Kinds

    def batch(self, batch: pa.RecordBatch, data_bytes: Lengths | None = None) -> Costs:
        """The cost of each row of a batch of decoded fields. `data_bytes`: sizes of the records they were decoded
        from."""
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


class FuelCost:
    """Cost of the rows of a batch: as a total, and per row only if a limit is near."""

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
        """Cost above the base, for rows that are each below `MAX_COST`."""
        found = sum(weight * _bytes(column.slice(start, stop - start)) for weight, column in self._texts)
        if self._units is not None:
            # The type of Arrow's offsets also holds the sum of lengths.
            found += int(np.add.reduce(self._units[start:stop], dtype=self._units.dtype))
        return found

    def between(self, start: int, stop: int) -> int:
        """Total cost of the rows [start, stop)."""
        if self._cost.base + self._above_base > MAX_COST:
            return int(self.each()[start:stop].sum())
        above = self._above_base if stop - start == self.rows else self._sum(start, stop)
        return self._cost.base * (stop - start) + above

    def within(self, limit: int) -> bool:
        """True if no row costs more than `limit`. False if some row may."""
        base = self._cost.base
        if base + self._above_base <= limit:
            return True
        found = base + sum(weight * _longest(column) for weight, column in self._texts)
        if self._units is not None:
            found += int(self._units.max(initial=0))
        return found <= limit

    def each(self) -> Costs:
        """The cost of each row."""
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
    """The bytes that an operation reads."""
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
    """Maximum size of a node's value."""
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


def _text(column: pa.Array, kind: Kind) -> pa.Array | None:
    """The column if it is text or binary, whose bytes count."""
    column = as_kind(column, kind)
    held = column.type
    return column if is_text(held) or pa.types.is_binary(held) or pa.types.is_large_binary(held) else None


def _bytes(column: pa.Array) -> int:
    """Total bytes of the texts of a column."""
    if not column.null_count and (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return packed_size(column)
    return int(_lengths(column).sum(dtype=np.int64))


def _longest(column: pa.Array) -> int:
    """Upper bound of the longest text of a column in bytes (bytes of nulls may count)."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return int(lengths(column).max(initial=0))
    return int(_lengths(column).max(initial=0))


def _lengths(column: pa.Array) -> Lengths:
    """Size of each text of a column in bytes."""
    sizes = pc.binary_length(column)
    if sizes.null_count:
        sizes = pc.fill_null(sizes, 0)
    found: Lengths = sizes.to_numpy()
    return found


class Limit(Enum):
    """The limit that a candidate would exceed."""

    ITEM = "item"  # limit per candidate: the position is kept
    SCAN = "scan"  # limit of the whole scan: final


@dataclass
class Meter:
    """Fuel meter of one scan."""

    max_item: int
    max_scan: int
    spent: int = field(default=0)

    def admit(self, costs: Costs) -> tuple[int, Limit | None]:
        """Charges as many candidates as the limits allow. Returns their number and the limit the next one exceeds."""
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

    def admit_batch(self, toll: FuelCost) -> tuple[int, Limit | None]:
        """As `admit`, for a batch. Computes costs per row only if a limit may be reached."""
        if self.spent + toll.whole <= self.max_scan and toll.within(self.max_item):
            self.spent += toll.whole
            return toll.rows, None
        return self.admit(toll.each())


class Unread:
    """Fuel of candidates without expressions: `row` for each, and one unit per 64 bytes of the total, so that the sum
    does not depend on how they are batched."""

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
        """Maximum number of candidates that the fuel `most` allows."""
        return max(0, most - self.spent) // self.row

    def admit(
        self, rows: int, nbytes: int, sizes: Callable[[], Lengths], max_item: int, max_scan: int
    ) -> tuple[int, Limit | None]:
        """Returns how many of the next candidates the limits allow, and the limit that the one after them exceeds.
        `sizes` returns the bytes of each, and is called only if a limit may be reached."""
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
        """Maximum cost of one candidate of `nbytes` bytes."""
        return self.row - -nbytes // BYTES_PER_UNIT
