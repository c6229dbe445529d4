"""The text of Arrow values in csv and jsonl files, and values from text. Whole columns at a time.

| type | text |
|---|---|
| integer, floating point, boolean | as usual; `NaN`, `Infinity`, `-Infinity` |
| decimal | its digits, exact |
| date, time, timestamp | ISO 8601 (with `Z` if there is a zone); outside of the years 1 to 9999 the units since 1970 |
| duration | the number of its units |
| interval of months, days and nanoseconds | JSON: `[months, days, nanoseconds]` |
| binary | base64 |
| list, struct, map | JSON; a map is a list of `{"key": …, "value": …}` |
| dictionary, run-end encoded, extension | as their values |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31."""
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_FINITE_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NUMBER = r"^-?\d+$"


def plain_values(array: pa.Array) -> pa.Array:
    """The values without dictionary, run-end encoding or extension type."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_values(array.storage)
    if pa.types.is_dictionary(kind):
        return plain_values(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return plain_values(pc.run_end_decode(array))
    return array


def is_nested(kind: pa.DataType) -> bool:
    """Whether values are written as JSON."""
    return bool(pa.types.is_nested(kind) or kind == pa.month_day_nano_interval())


def is_text(kind: pa.DataType) -> bool:
    return _is_any(kind, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def is_binary(kind: pa.DataType) -> bool:
    return _is_any(
        kind, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether the text of a value is a JSON literal, or the name of a number that JSON lacks."""
    return _is_any(kind, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_duration)


def _is_any(kind: pa.DataType, *tests: Callable[[pa.DataType], bool]) -> bool:
    return any(test(kind) for test in tests)


def to_text(array: pa.Array) -> pa.Array:
    """The text of plain values that are not nested; null stays null."""
    kind = array.type
    if is_text(kind):
        return array.cast(pa.string())
    if is_binary(kind):
        return _base64(array)
    if pa.types.is_floating(kind):
        return _float_text(array)
    if pa.types.is_duration(kind):
        return array.cast(pa.int64()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        days = _PER_DAY[kind.unit]
        counts = array.cast(pa.int64())
        local = counts.cast(pa.timestamp(kind.unit, "UTC" if kind.tz else None))
        return _calendar(local, counts, _FIRST_DAY * days, (_LAST_DAY + 1) * days - 1)
    if pa.types.is_date64(kind):
        days = _PER_DAY["ms"]
        return _calendar(array, array.cast(pa.int64()), _FIRST_DAY * days, (_LAST_DAY + 1) * days - 1)
    if pa.types.is_date32(kind):
        return _calendar(array, array.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    return array.cast(pa.string())


def from_text(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a plain type that is not nested; raises ArrowInvalid if some text is none."""
    if is_text(kind):
        return text.cast(kind)
    if is_binary(kind):
        return _from_base64(text, kind)
    text = pc.utf8_trim_whitespace(text)
    if pa.types.is_null(kind):
        if text.null_count < len(text):
            raise pa.ArrowInvalid("a value in a column that has none")
        return pa.nulls(len(text), kind)
    if pa.types.is_duration(kind):
        return text.cast(pa.int64()).cast(kind)
    if pa.types.is_timestamp(kind):
        return _from_calendar(text, kind, pa.int64())
    if pa.types.is_date(kind):
        return _from_calendar(text, kind, pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if pa.types.is_time(kind):
        moments = pc.binary_join_element_wise("1970-01-01T", text, "")
        return moments.cast(pa.timestamp(kind.unit)).cast(kind)
    return text.cast(kind)


def exact_type(digits: int) -> pa.DataType:
    """The type of integers that 64 bits do not hold; floating point, which is what Arrow infers, if none does."""
    if digits > 76:
        return pa.float64()
    return pa.decimal128(38, 0) if digits <= 38 else pa.decimal256(76, 0)


def _float_text(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    if not pc.all(pc.is_finite(array), min_count=0).as_py():
        for found, name in _FINITE_NAMES.items():
            text = pc.if_else(pc.equal(text, found), name, text)
    return text


def _calendar(moments: pa.Array, counts: pa.Array, first: int, last: int) -> pa.Array:
    """ISO 8601 where the year has four digits, else the count."""
    text = pc.replace_substring(moments.cast(pa.string()), " ", "T", max_replacements=1)
    # In nanoseconds all years have four digits, but Arrow can't read the first second of them.
    low, high = max(first, -(2**63) + 10**9), min(last, 2**63 - 1)
    inside = pc.and_(pc.greater_equal(counts, low), pc.less_equal(counts, high))
    if pc.all(inside, min_count=0).as_py():
        return text
    return pc.if_else(inside, text, counts.cast(pa.string()))


def _from_calendar(text: pa.Array, kind: pa.DataType, count: pa.DataType) -> pa.Array:
    counted = pc.match_substring_regex(text, _NUMBER)
    if not pc.any(counted, min_count=0).as_py():
        return text.cast(kind)
    nothing = pa.scalar(None, pa.string())
    counts = pc.if_else(counted, text, nothing).cast(count).cast(kind)
    return pc.coalesce(counts, pc.if_else(counted, nothing, text).cast(kind))


def _base64(array: pa.Array) -> pa.Array:
    made: Any = pl.from_arrow(array.cast(pa.large_binary()))
    return made.bin.encode("base64").to_arrow().cast(pa.string())


def _from_base64(text: pa.Array, kind: pa.DataType) -> pa.Array:
    given: Any = pl.from_arrow(text.cast(pa.large_string()))
    try:
        made = given.str.decode("base64", strict=True).to_arrow()
    except pl.exceptions.PolarsError as error:
        raise pa.ArrowInvalid(f"not base64: {error}") from error
    return made.cast(pa.binary()).cast(kind)
