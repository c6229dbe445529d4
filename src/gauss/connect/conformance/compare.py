"""Compares rows with what became of them, whatever types the other system has."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gauss.connect.conformance.generator import ID

_ISO = re.compile(r"P(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?")
SHOWN = 5
LONGEST = 80


def lost_and_doubled(expected: pa.Table, found: pa.Table, key: str = ID) -> str:
    """Which rows are missing, there more often, or should not be there. Empty: none."""
    wanted = Counter(_keys(expected, key))
    there = Counter(_keys(found, key))
    parts = []
    for word, keys in (
        ("lost", [key for key in wanted if key not in there]),
        ("duplicated", [key for key in wanted if there[key] > wanted[key]]),
        ("unexpected", [key for key in there if key not in wanted]),
    ):
        if keys:
            parts.append(f"{len(keys)} of {len(wanted)} rows {word} ({key_list(keys)})")
    return "; ".join(parts)


def _keys(rows: pa.Table, key: str) -> list[Any]:
    return rows.column(key).to_pylist() if key in rows.column_names else []


def key_list(keys: list[Any]) -> str:
    more = f", … {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return f"{ID} {', '.join(map(str, keys[:SHOWN]))}{more}"


def difference(expected: pa.Table, found: pa.Table, *, key: str = ID) -> str:
    """How two tables differ, in any order of rows. Empty: they do not."""
    if text := lost_and_doubled(expected, found, key):
        return text
    if not expected.num_rows:
        return ""
    expected, found = ordered(expected, key), ordered(found, key)
    for name in expected.column_names:
        if name not in found.column_names:
            return f"the column {name} is missing"
        if text := column_difference(expected.column(name), found.column(name), name):
            return text
    return ""


def ordered(rows: pa.Table, key: str = ID) -> pa.Table:
    """The rows in the order of their key."""
    if key not in rows.column_names:
        return rows
    for place, each in enumerate(rows.schema):
        plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(each.type)
        if plain is not None:  # Arrow does not sort tables with views
            rows = rows.set_column(place, each.name, rows.column(place).cast(plain))
    return rows.sort_by(key)


def column_difference(expected: pa.ChunkedArray, found: pa.ChunkedArray, name: str) -> str:
    """The first value that differs. Empty: none."""
    if expected.type == found.type and not pa.types.is_floating(expected.type) and expected.equals(found):
        return ""
    wanted, there = _values(expected), _values(_converted(found, expected.type))
    for row, (left, right) in enumerate(zip(wanted, there, strict=True)):
        one, other = canonical(left, expected.type), canonical(right, expected.type)
        if one != other and not _same_day(one, other):
            return f"{name}, row {row + 1}: expected {_shown(one)}, found {_shown(other)} ({found.type})"
    return ""


def same_rows(left: pa.Table, right: pa.Table) -> str:
    """How two reads of the same rows differ, by all columns and in any order. Empty: they do not."""
    if left.num_rows != right.num_rows:
        return f"{left.num_rows} rows, then {right.num_rows}"
    if left.column_names != right.column_names:
        return f"columns {', '.join(left.column_names)}, then {', '.join(right.column_names)}"
    first, second = _counted(left), _counted(right)
    if first == second:
        return ""
    only = next(iter((first - second) or (second - first)))
    return f"a row that only one of both has: {_shown(only)}"


def _counted(rows: pa.Table) -> Counter[str]:
    columns = [[repr(canonical(value, column.type)) for value in _values(column)] for column in rows.columns]
    return Counter(", ".join(row) for row in zip(*columns, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    found: list[Any] = column.to_pylist()
    return found


def _converted(found: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The values in another type, if they are the same there."""
    kinds = pa.types
    if kinds.is_string(found.type) and (
        kinds.is_binary(wanted) or kinds.is_large_binary(wanted) or kinds.is_fixed_size_binary(wanted)
    ):
        return found.cast(pa.binary())  # of a system that does not tell text from bytes: it may not be UTF-8
    try:
        made = found.cast(wanted)
        return made if made.cast(found.type).equals(found) else found
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OverflowError):
        return found


def canonical(value: Any, kind: pa.DataType) -> Any:
    """A value in a form that is the same for all types that can hold it."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case bool() | None:
            return value
        case int() | Decimal():
            return Decimal(value) if pa.types.is_decimal(kind) else value
        case str() if pa.types.is_nested(kind):
            return canonical(_parsed(value), kind)
        case str() if pa.types.is_decimal(kind):
            return Decimal(value)
        case str() if pa.types.is_duration(kind):
            return _interval(value)
        case memoryview() | bytearray():
            return bytes(value)
        case dict():
            return {str(name): canonical(each, pa.null()) for name, each in value.items()}
        case list() if pa.types.is_map(kind):
            return {str(each[0]): canonical(each[1], pa.null()) for each in value}
        case list():
            return [canonical(each, pa.null()) for each in value]
        case pa.MonthDayNano() if not value.months:
            return dt.timedelta(days=value.days, microseconds=value.nanoseconds / 1000)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case _:
            return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _interval(text: str) -> Any:
    """An ISO 8601 duration without months; other text is returned as it is."""
    found = _ISO.fullmatch(text)
    if found is None:
        return text
    days, hours, minutes, seconds = (Decimal(each or 0) for each in found.groups())
    return dt.timedelta(days=int(days), microseconds=int((hours * 3600 + minutes * 60 + seconds) * 1_000_000))


def _same_day(left: Any, right: Any) -> bool:
    """Whether a date came back as the midnight that begins it."""
    is_date = isinstance(left, dt.date) and not isinstance(left, dt.datetime)
    return is_date and isinstance(right, dt.datetime) and right == dt.datetime(left.year, left.month, left.day)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}… ({len(text)} characters)"
