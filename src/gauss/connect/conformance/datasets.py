"""Rows for connectors under test: deterministic, of every Arrow type, with NULLs and edge values."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gauss.connect.conformance.generator import ID
from gauss.contracts.connector.arrow_types import type_name

UTC = dt.UTC
_TIMES = [dt.datetime(2024, 2, 29, 23, 59, 58), dt.datetime(1999, 12, 31, 1, 2, 3)]
_DATES = [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]
_TIME = [dt.time(0, 0, 1), dt.time(23, 59, 59)]

Values = dict[str, tuple[pa.DataType, list[Any]]]
"""Columns: their type and some values."""

TYPES: Values = {
    type_name(kind): (kind, values)
    for kind, values in (
        (pa.bool_(), [True, False]),
        (pa.int8(), [-5, 7]),
        (pa.int16(), [-500, 700]),
        (pa.int32(), [-50_000, 70_000]),
        (pa.int64(), [-5_000_000_000, 7_000_000_000]),
        (pa.uint8(), [5, 250]),
        (pa.uint16(), [5, 65_000]),
        (pa.uint32(), [5, 4_000_000_000]),
        (pa.uint64(), [5, 9_000_000_000]),
        (pa.float32(), [1.5, -0.25]),
        (pa.float64(), [0.1, -1e300]),
        (pa.string(), ["one", "two"]),
        (pa.large_string(), ["one", "two"]),
        (pa.string_view(), ["one", "two, which is longer than twelve bytes"]),
        (pa.binary(), [b"\x00\xff", b"two"]),
        (pa.large_binary(), [b"\x00\xff", b"two"]),
        (pa.binary(4), [b"\x00\x01\x02\xff", b"abcd"]),
        (pa.date32(), _DATES),
        (pa.date64(), _DATES),
        (pa.timestamp("s"), _TIMES),
        (pa.timestamp("ms"), [each.replace(microsecond=5_000) for each in _TIMES]),
        (pa.timestamp("us"), [each.replace(microsecond=123_456) for each in _TIMES]),
        (pa.timestamp("us", "UTC"), [each.replace(microsecond=5, tzinfo=UTC) for each in _TIMES]),
        (pa.timestamp("ns"), _TIMES),
        (pa.time32("ms"), _TIME),
        (pa.time64("us"), [each.replace(microsecond=5) for each in _TIME]),
        (pa.duration("us"), [dt.timedelta(seconds=90, microseconds=5), dt.timedelta(days=-2)]),
        (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-99999999.99")]),
        (pa.decimal128(38, 9), [Decimal("0.000000001"), Decimal("-12345678901234567890.5")]),
        (pa.list_(pa.int64()), [[1, 2, 3], [4, None]]),
        (pa.list_(pa.string()), [["a", "b"], ["c"]]),
        (pa.large_list(pa.int64()), [[1], [2, 3]]),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("b", 2), ("c", 3)]]),
        (pa.dictionary(pa.int32(), pa.string()), ["red", "green"]),
    )
}
"""Two values of each type, by its name in catalogs."""
BASIC = ("Boolean", "Int64", "Float64", "Utf8")
"""The types of a destination that does not say which ones it takes."""

_UNICODE = ["naïve – Ω≈ç√", "漢字かな", "👩‍👩‍👧 e\u0301", "\u202eright to left"]
_QUOTES = ["it's", 'say "hi"', "back\\slash", "tab\tnew\nline\r\n", "\\N", "NULL", "$1 %s {} ;--", "a,b;c|d"]

EDGES: Values = {
    "int8_limits": (pa.int8(), [-(2**7), 2**7 - 1]),
    "int16_limits": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int32_limits": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64_limits": (pa.int64(), [-(2**63), 2**63 - 1]),
    "uint64_limit": (pa.uint64(), [0, 2**64 - 1]),
    "float_nan": (pa.float64(), [float("nan")]),
    "float_infinity": (pa.float64(), [float("inf"), float("-inf")]),
    "float_limits": (pa.float64(), [5e-324, 1.7976931348623157e308, -0.0]),
    "empty_text": (pa.string(), ["", " "]),
    "unicode_text": (pa.string(), _UNICODE),
    "quotes_in_text": (pa.string(), _QUOTES),
    "json_text": (pa.string(), ["{}", "[]", '{"a": null}']),
    "long_text": (pa.string(), ["x" * 100_000, "ü" * 50_000]),
    "empty_bytes": (pa.binary(), [b"", b"\x00"]),
    "all_bytes": (pa.binary(), [bytes(range(256))]),
    "epoch": (pa.timestamp("us"), [dt.datetime(1970, 1, 1)]),
    "early_and_late_times": (
        pa.timestamp("us"),
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    ),
    "early_and_late_dates": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)]),
    "nil_uuid": (pa.string(), ["00000000-0000-0000-0000-000000000000"]),
    "decimal_zero": (pa.decimal128(18, 6), [Decimal("0.000000"), Decimal("-0.000001")]),
    "decimal_limits": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(-(10**38) + 1)]),
    "empty_list": (pa.list_(pa.int64()), [[], [None]]),
}


def plain(count: int, first: int = 1, word: str = "row") -> pa.Table:
    """Rows of three columns that every system has."""
    ids = range(first, first + count)
    return pa.table(
        {
            ID: pa.array(ids, pa.int64()),
            "name": pa.array([f"{word} {id}" for id in ids], pa.string()),
            "half": pa.array([id / 2 for id in ids], pa.float64()),
        }
    )


def with_nulls(chosen: Values) -> pa.Table:
    """A table with a column per entry. Its first row is NULL in all columns but the id."""
    count = max((len(values) for _, values in chosen.values()), default=1) + 1
    columns = {ID: pa.array(range(1, count + 1), pa.int64())}
    for name, (kind, values) in chosen.items():
        repeated = [None, *(values[row % len(values)] for row in range(count - 1))]
        columns[column_name(name)] = pa.array(repeated, kind)
    return pa.table(columns)


def column_name(name: str) -> str:
    """The column of an entry: a plain word, since names are tried by a case of their own."""
    return "c_" + re.sub(r"\W+", "_", name).strip("_").lower()
