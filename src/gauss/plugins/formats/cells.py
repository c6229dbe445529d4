"""Cells: the value of each column and record of a batch, in arrays that compiled walks fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.format import FieldType
from gauss.plugins.formats.columns import YEARS_US, pieces
from gauss.plugins.formats.literals import (
    DATE_LENGTH,
    MAX_DIGITS_VALUE,
    NOT_PLAIN,
    Number,
    nearest_double,
    read_date,
    read_number,
    read_timestamp,
    two_digits,
)
from gauss.plugins.formats.values import MAX_FLOAT, RANGES

INTEGER, REAL, BOOL, TEXT, DECIMAL, ISO_TIMESTAMP, UNIX_TIMESTAMP, DATE, JSON, BYTES, TEXT_OR_BYTES = range(11)
"""How a walk reads a value. JSON keeps the bytes of any value as they are."""

_KINDS = {
    **dict.fromkeys(RANGES, INTEGER),
    "float": REAL,
    "double": REAL,
    "bool": BOOL,
    "string": TEXT,
    "varchar": TEXT,
    "bytes": BYTES,
    "decimal": DECIMAL,
    "timestamp": ISO_TIMESTAMP,
    "date": DATE,
    "json": JSON,
}
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MAX_INT64 = 2**63 - 1
_MAX_DECIMAL_DIGITS, _MAX_SECOND_DIGITS = 38, 6


class ColumnTypes(NamedTuple):
    """Arrays with an element per column."""

    kinds: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    scales: np.ndarray
    """Digits after the decimal point of a decimal; microseconds per unit of a UNIX_TIMESTAMP."""

    @classmethod
    def of(cls, types: list[tuple[int, int, int, int]]) -> ColumnTypes:
        """From a `column_type` per column."""
        return cls(*np.array(types, np.int64).reshape(-1, 4).T.copy())


class Cells(NamedTuple):
    """The records of a batch and the values that a walk finds in them."""

    data: np.ndarray
    """The bytes of all records."""
    offsets: np.ndarray
    """Record i is data[offsets[i] : offsets[i + 1]]."""
    types: ColumnTypes
    numbers: np.ndarray
    """By column and record: the value, or where its bytes begin in `data`."""
    reals: np.ndarray
    """The memory of `numbers` as doubles."""
    lengths: np.ndarray
    """By column and record: how many bytes the value has in `data`."""
    present: np.ndarray
    """By column and record: 1 if there is a value, 0 for null."""
    suspects: np.ndarray
    """By record: 1 if the walk leaves it to a decoder of single records."""

    @classmethod
    def of(cls, offsets: np.ndarray, data: np.ndarray, types: ColumnTypes) -> Cells:
        """Empty cells for these records."""
        shape = len(types.kinds), len(offsets) - 1
        numbers = np.zeros(shape, np.int64)
        lengths, present = np.zeros(shape, np.int32), np.zeros(shape, np.uint8)
        suspects = np.zeros(shape[1], np.uint8)
        return cls(data, offsets, types, numbers, numbers.view(np.float64), lengths, present, suspects)

    def column(self, index: int, type_: FieldType, arrow: pa.DataType) -> pa.Array:
        """One column. A record with a value that does not fit the type becomes a suspect."""
        values, present = self.numbers[index], self.present[index].astype(bool)
        name = type_.name
        mask = None if present.all() else ~present
        if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
            found = pieces(self.data, values, self.lengths[index], present)
            return found if found.type == arrow else found.cast(arrow)
        if name == "bool":
            return pa.array(values.astype(bool), mask=mask)
        if name in ("float", "double"):
            reals = self.reals[index]
            if name == "float":
                beyond = present & np.isfinite(reals) & (np.abs(reals) >= MAX_FLOAT)
                self.suspects[beyond] = 1
                reals = np.where(beyond, 0, reals)
            return pa.array(reals, mask=mask).cast(arrow, safe=False)
        if name == "date":
            return pa.array(values.astype(np.int32), pa.int32(), mask=mask).cast(pa.date32())
        if name == "timestamp":
            step = 10 ** (_MAX_SECOND_DIGITS - type_.attrs.get("precision", _MAX_SECOND_DIGITS))
            return pa.array(values - values % step, pa.int64(), mask=mask).cast(arrow)
        if pa.types.is_decimal(arrow):
            wide = np.stack([values, values >> 63], axis=1)  # both halves of a number of 128 bits
            valid = None if mask is None else pa.array(present).buffers()[1]
            return pa.Array.from_buffers(arrow, len(values), [valid, pa.py_buffer(wide)])
        return pa.array(values, mask=mask).cast(arrow)


class Names(NamedTuple):
    """Names of fields, grouped by the object in which they stand."""

    text: np.ndarray
    """All names in one piece."""
    first: np.ndarray
    """Object i has the names from first[i] up to first[i + 1]."""
    starts: np.ndarray
    sizes: np.ndarray
    """By name: where it lies in `text`."""


def find_name(  # noqa: PLR0917
    names: Names, node: int, guess: int, data: np.ndarray, start: int, stop: int
) -> int:
    """The name of object `node` that is data[start:stop], tried from `guess` on; -1 if there is none."""
    first, end, size = names.first[node], names.first[node + 1], stop - start
    for turn in range(end - first):
        name = guess + turn
        name -= end - first if name >= end else 0
        if names.sizes[name] != size:
            continue
        equal, place = True, names.starts[name]
        for index in range(size):
            if names.text[place + index] != data[start + index]:
                equal = False
                break
        if equal:
            return name
    return -1


def store_number(cells: Cells, record: int, column: int, number: Number) -> bool:
    """Stores a number in its column; False if it does not fit."""
    types, digits = cells.types, number.digits
    kind = types.kinds[column]
    if kind in (INTEGER, UNIX_TIMESTAMP):
        value = digits * number.sign
        if number.scale != 0 or value < types.lows[column] or value > types.highs[column]:
            return False
        cells.numbers[column, record] = value * types.scales[column]
    elif kind == REAL:
        found = nearest_double(digits, number.scale)
        if found != found:  # noqa: PLR0124 (NaN)
            return False
        cells.reals[column, record] = found * number.sign
    elif kind == DECIMAL:
        for _ in range(types.scales[column] - number.scale):
            if digits >= MAX_DIGITS_VALUE:
                return False
            digits *= 10
        if number.scale > types.scales[column] or digits > types.highs[column]:
            return False
        cells.numbers[column, record] = digits * number.sign
    else:
        return False
    return True


def store_literal(cells: Cells, record: int, column: int, start: int, stop: int) -> bool:
    """Stores the number, date or timestamp that data[start:stop] spells; False if it is none, or in a rare spelling."""
    kind = cells.types.kinds[column]
    if kind in (ISO_TIMESTAMP, DATE):
        found = NOT_PLAIN
        if kind == ISO_TIMESTAMP:
            found = read_timestamp(cells.data, start, stop - start)
        elif stop - start == DATE_LENGTH:
            found = read_date(cells.data, start)
        cells.numbers[column, record] = found
        return found != NOT_PLAIN
    if start == stop:
        return False
    number = read_number(cells.data, start, stop)
    if number.end != stop:
        return False
    return store_number(cells, record, column, number)


def clear(cells: Cells, record: int) -> None:
    """Makes a record a suspect without values."""
    cells.suspects[record] = 1
    for column in range(len(cells.types.kinds)):
        cells.present[column, record] = 0


STORING = (two_digits, read_date, read_timestamp, read_number, nearest_double, store_number, store_literal, clear)
"""The helpers of a walk that fills cells, each after those it calls."""


def column_type(type_: FieldType) -> tuple[int, int, int, int] | None:
    """(kind, lowest, highest, scale) of a type; None if walks can't read it."""
    name, attrs = type_.name, type_.attrs
    if name not in _KINDS or attrs.get("precision", 0) > (
        _MAX_DECIMAL_DIGITS if name == "decimal" else _MAX_SECOND_DIGITS
    ):
        return None
    if name in RANGES:
        low, high = RANGES[name]
        return INTEGER, low, min(high, _MAX_INT64), 1
    if name == "decimal":
        return DECIMAL, 0, min(10 ** attrs["precision"] - 1, _MAX_INT64), attrs.get("scale", 0)
    if name == "timestamp" and (unit := attrs.get("unit", "iso")) != "iso":
        if unit not in _UNIT_US:
            return None
        return UNIX_TIMESTAMP, YEARS_US[0] // _UNIT_US[unit], YEARS_US[1] // _UNIT_US[unit], _UNIT_US[unit]
    if attrs.get("utf8") is False:
        return TEXT_OR_BYTES, 0, 0, 0
    return _KINDS[name], 0, 0, 0
