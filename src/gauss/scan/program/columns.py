"""Operations on Arrow columns with the semantics of programs: null where Arrow would return NaN or an error."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.expression import Kind, Literal

Vector = Any
"""An array, or a scalar for all rows."""

TYPES = {Kind.BOOL: pa.bool_(), Kind.INT: pa.int64(), Kind.NUMBER: pa.float64(), Kind.STRING: pa.string()}
WIDE = pa.decimal128(38, 0)
"""Type of integers beyond int64: uint64 values and sums."""

# Made from arrays: `pa.scalar` imports pandas, which would slow down the start of every reading process.
_NO_NUMBER = pa.nulls(1, pa.float64())[0]
_NO_TEXT = pa.nulls(1, pa.string())[0]
_JSON_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"
_TESTS = {
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
    "contains": pc.match_substring,
    "test": pc.match_substring_regex,
}
_ROW_TESTS = {"startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}
_UNCHECKED = pc.TakeOptions(boundscheck=False)
_ROUND = {"floor": pc.floor, "ceil": pc.ceil, "abs": pc.abs}


def as_kind(column: pa.Array, kind: Kind) -> pa.Array:
    """A column converted to the Arrow type of its kind. All nulls if its type does not match the kind."""
    held = column.type
    if isinstance(column, pa.DictionaryArray):
        column, held = column.dictionary_decode(), held.value_type
    match kind:
        case Kind.NUMBER if pa.types.is_integer(held) or pa.types.is_floating(held) or pa.types.is_decimal(held):
            return _without_nan(as_double(column))
        case Kind.INT if pa.types.is_uint64(held) or (
            pa.types.is_decimal(held) and held.scale == 0 and held.precision <= WIDE.precision
        ):
            return pc.cast(column, WIDE)
        case Kind.INT if pa.types.is_integer(held):
            return column if held == pa.int64() else pc.cast(column, pa.int64())
        case Kind.STRING if is_text(held):
            return column if held == pa.string() else pc.cast(column, pa.string())
        case Kind.BOOL if pa.types.is_boolean(held):
            return column
        case Kind.ANY | Kind.OPAQUE:
            return column
    return pa.nulls(len(column), TYPES.get(kind, pa.null()))


@lru_cache(maxsize=1024)
def constant(literal: Literal) -> pa.Scalar:
    """A literal as a scalar. Cached, since every batch uses the same literals."""
    return pa.scalar(literal.value, TYPES.get(literal.kind))


def as_double(value: Vector) -> Vector:
    """Numbers as doubles, rounded to nearest."""
    if value.type == pa.float64():
        return value
    if pa.types.is_decimal(value.type):  # Arrow's own cast is wrong in the last digit for some values
        value = pc.cast(value, pa.string())
    return pc.cast(value, pa.float64(), safe=False)


def finite(value: Vector) -> Vector:
    """Doubles with null instead of infinities and NaN."""
    if isinstance(value, pa.Array) and bool(np.isfinite(_doubles(value)).all()):
        return value
    return pc.if_else(pc.is_finite(value), value, _NO_NUMBER)


def remainder(left: Vector, right: Vector) -> Vector:
    """fmod, which Arrow lacks. The result has the sign of the dividend."""
    rows = max((len(side) for side in (left, right) if isinstance(side, pa.Array)), default=1)
    with np.errstate(invalid="ignore"):
        found = pa.array(np.fmod(_doubles(filled(left, rows)), _doubles(filled(right, rows))))
    result = pc.if_else(pc.and_(pc.is_valid(left), pc.is_valid(right)), found, _NO_NUMBER)
    return result if isinstance(left, pa.Array) or isinstance(right, pa.Array) else result[0]


def rounded(name: str, value: Vector) -> Vector:
    """floor, ceil, abs or round (half away from zero). Never returns negative zero."""
    found = _ROUND[name](value) if name in _ROUND else pc.round(value, round_mode="half_towards_infinity")
    return finite(pc.add(found, 0.0))


def parsed(value: Vector) -> Vector:
    """Parses texts as JSON numbers; null if a text is not one."""
    numbers = pc.if_else(pc.match_substring_regex(value, _JSON_NUMBER), value, _NO_TEXT)
    return finite(pc.cast(numbers, pa.float64()))


def trimmed(name: str, value: Vector, part: str) -> Vector:
    """Removes a prefix (`ltrimstr`) or suffix (`rtrimstr`)."""
    if not part:
        return value
    if name == "ltrimstr":
        return pc.if_else(pc.starts_with(value, part), pc.utf8_slice_codeunits(value, len(part)), value)
    return pc.if_else(pc.ends_with(value, part), pc.utf8_slice_codeunits(value, 0, -len(part)), value)


def matches(name: str, value: Vector, part: Vector) -> Vector:
    """startswith, endswith, contains or test."""
    if isinstance(part, pa.Scalar):
        if part.as_py() is None:
            return pa.scalar(None, pa.bool_())
        return _TESTS[name](value, part.as_py())
    # Arrow's kernels take only one pattern for all rows.
    rows = zip(filled(value, len(part)).to_pylist(), part.to_pylist(), strict=True)
    test = _ROW_TESTS[name]
    return pa.array([None if a is None or b is None else test(a, b) for a, b in rows], pa.bool_())


def filled(value: Vector, rows: int) -> pa.Array:
    """The value as an array of `rows` rows."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def true_places(mask: pa.BooleanArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Indexes where a mask without nulls is true. Takes half the time of Arrow's kernel."""
    bits = np.frombuffer(mask.buffers()[1], np.uint8)
    found = np.unpackbits(bits, count=mask.offset + len(mask), bitorder="little").view(bool)
    return np.flatnonzero(found[mask.offset :])


def gathered(column: pa.Array, places: pa.Array) -> pa.Array:
    """`take` without bounds checks."""
    return pc.call_function("array_take", [column, places], _UNCHECKED)


def any_nulls(value: Vector) -> bool:
    return bool(value.as_py() is None if isinstance(value, pa.Scalar) else value.null_count)


def is_text(held: pa.DataType) -> bool:
    return bool(pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_string_view(held))


def _without_nan(column: pa.Array) -> pa.Array:
    if not np.isnan(_doubles(column).min(initial=0.0)):
        return column
    return pc.if_else(pc.is_nan(column), _NO_NUMBER, column)


def _doubles(column: pa.Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The column's memory as a NumPy array. Values of nulls are arbitrary."""
    values = column.buffers()[1]
    if values is None:
        return np.zeros(len(column))
    return np.frombuffer(values, np.float64, len(column), column.offset * 8)
