"""What walks leave behind as columns: a number, or a place and a length in the bytes, for each value of each field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.format import FieldType
from gauss.plugins.formats.columns import YEARS_US, pieces
from gauss.plugins.formats.literals import ENOUGH, ODD, date_of, moment_of, nearest, number, two
from gauss.plugins.formats.values import MAX_FLOAT, RANGES

WHOLE, REAL, BOOL, TEXT, DECIMAL, MOMENT, SINCE, DATE, ANY, BYTES, EITHER = range(11)
"""How a walk reads a value: SINCE is a number of a unit since 1970, ANY a value as its bytes, EITHER text or bytes."""

_KINDS = {
    **dict.fromkeys(RANGES, WHOLE),
    "float": REAL,
    "double": REAL,
    "bool": BOOL,
    "string": TEXT,
    "varchar": TEXT,
    "bytes": BYTES,
    "decimal": DECIMAL,
    "timestamp": MOMENT,
    "date": DATE,
    "json": ANY,
}
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MOST = 2**63 - 1


def entry_of(  # noqa: PLR0917
    data: Any, position: int, size: int, names: Any, entries: Any, begin: int, many: int, guess: int
) -> int:
    """Which of `many` entries (start and length of a name) from `begin` on has the name that stands here, looked for
    from `guess` on; -1: none. For machine code."""
    for turn in range(many):
        entry = guess + turn
        entry -= many if entry >= begin + many else 0
        if entries[entry, 1] != size:
            continue
        same, place = True, entries[entry, 0]
        for index in range(size):
            if names[place + index] != data[position + index]:
                same = False
                break
        if same:
            return entry
    return -1


def stored(  # noqa: PLR0917
    value: int,
    fraction: int,
    sign: int,
    record: int,
    column: int,
    kinds: Any,
    lows: Any,
    highs: Any,
    scales: Any,
    out: Any,
    reals: Any,
) -> bool:
    """Puts a number into its column, `value` being all its digits and `fraction` how many of them stand behind the
    point; False: it does not fit. For machine code."""
    kind = kinds[column]
    if kind in (WHOLE, SINCE):
        value *= sign
        if fraction != 0 or value < lows[column] or value > highs[column]:
            return False
        out[column, record] = value * scales[column]
    elif kind == REAL:
        found = nearest(value, fraction)
        if found != found:  # noqa: PLR0124 (NaN)
            return False
        reals[column, record] = found * sign
    elif kind == DECIMAL:
        for _ in range(scales[column] - fraction):
            if value >= ENOUGH:
                return False
            value *= 10
        if fraction > scales[column] or value > highs[column]:
            return False
        out[column, record] = value * sign
    else:
        return False
    return True


def spelled(  # noqa: PLR0917
    data: Any,
    start: int,
    stop: int,
    record: int,
    column: int,
    kinds: Any,
    lows: Any,
    highs: Any,
    scales: Any,
    out: Any,
    reals: Any,
) -> bool:
    """Puts what text spells into its column: a number, a date or a moment; False: it is none, or not a plain one. For
    machine code."""
    kind = kinds[column]
    if kind in (MOMENT, DATE):
        found = ODD
        if kind == MOMENT:
            found = moment_of(data, start, stop - start)
        elif stop - start == 10:
            found = date_of(data, start)
        out[column, record] = found
        return found != ODD
    if start == stop:
        return False
    end, value, fraction, sign = number(data, start, stop)
    if end != stop:
        return False
    return stored(value, fraction, sign, record, column, kinds, lows, highs, scales, out, reals)


SPELLING = (two, date_of, moment_of, number, nearest, stored, spelled)
"""What a walk that reads text needs of these, in the order in which they need each other."""


def facts(type_: FieldType) -> tuple[int, int, int, int] | None:
    """(kind, lowest, highest, scale) of a type; None: walks do not know it."""
    name, attrs = type_.name, type_.attrs
    if name not in _KINDS or attrs.get("precision", 0) > (38 if name == "decimal" else 6):
        return None
    if name in RANGES:
        low, high = RANGES[name]
        return WHOLE, low, min(high, _MOST), 1
    if name == "decimal":
        return DECIMAL, 0, min(10 ** attrs["precision"] - 1, _MOST), attrs.get("scale", 0)
    if name == "timestamp" and (unit := attrs.get("unit", "iso")) != "iso":
        if unit not in _UNIT_US:
            return None
        return SINCE, YEARS_US[0] // _UNIT_US[unit], YEARS_US[1] // _UNIT_US[unit], _UNIT_US[unit]
    if attrs.get("utf8") is False:
        return EITHER, 0, 0, 0
    return _KINDS[name], 0, 0, 0


class Values:
    """What a walk fills: for each column and record a number (or a place), a length, and whether it is there."""

    def __init__(self, columns: int, records: int) -> None:
        shape = columns, records
        self.numbers = np.zeros(shape, np.int64)
        self.reals = self.numbers.view(np.float64)
        self.lengths = np.zeros(shape, np.int32)
        self.present = np.zeros(shape, np.uint8)
        self.suspects = np.zeros(records, np.uint8)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """In the order in which every walk takes them."""
        return self.numbers, self.reals, self.lengths, self.present, self.suspects

    def column(self, index: int, type_: FieldType, arrow: pa.DataType, body: np.ndarray) -> pa.Array:
        """One column; a value that its type can't hold makes its record a suspect."""
        values, present = self.numbers[index], self.present[index].astype(bool)
        name = type_.name
        mask = None if present.all() else ~present
        if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
            found = pieces(body, values, self.lengths[index], present)
            return found if found.type == arrow else found.cast(arrow)
        if name == "bool":
            return pa.array(values.astype(bool), mask=mask)
        if name in ("float", "double"):
            reals = self.reals[index]
            if name == "float":
                beyond = present & np.isfinite(reals) & (np.abs(reals) >= MAX_FLOAT)
                self.suspects |= beyond
                reals = np.where(beyond, 0, reals)
            return pa.array(reals, mask=mask).cast(arrow, safe=False)
        if name == "date":
            return pa.array(values.astype(np.int32), pa.int32(), mask=mask).cast(pa.date32())
        if name == "timestamp":
            step = 10 ** (6 - type_.attrs.get("precision", 6))
            return pa.array(values - values % step, pa.int64(), mask=mask).cast(arrow)
        if pa.types.is_decimal(arrow):
            wide = np.stack([values, values >> 63], axis=1)  # both halves of a number of 128 bits
            valid = None if mask is None else pa.array(present).buffers()[1]
            return pa.Array.from_buffers(arrow, len(values), [valid, pa.py_buffer(wide)])
        return pa.array(values, mask=mask).cast(arrow)
