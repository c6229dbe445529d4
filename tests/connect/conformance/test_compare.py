"""The comparison of written rows with expected ones."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.conformance.compare import column_difference, difference, lost_and_doubled, same_rows
from gauss.connect.conformance.datasets import plain


def column(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (column([5, None], pa.uint8()), column([5, None], pa.int16())),
        (column([float("nan")], pa.float64()), column([float("nan")], pa.float64())),
        (column([dt.date(2024, 2, 29)], pa.date32()), column([dt.datetime(2024, 2, 29)], pa.timestamp("us"))),
        (column([Decimal("1.50")], pa.decimal128(10, 2)), column(["1.5"], pa.string())),
        (column([{"a": 1}], pa.struct([("a", pa.int64())])), column(['{"a": 1}'], pa.string())),
        (column([[("b", 2)]], pa.map_(pa.string(), pa.int64())), column(['{"b": 2}'], pa.string())),
        (column([dt.timedelta(days=-2, seconds=90)], pa.duration("us")), column(["P-2DT1M30S"], pa.string())),
        (column(["red"], pa.dictionary(pa.int32(), pa.string())), column(["red"], pa.string())),
    ],
    ids=["integer", "NaN", "date", "decimal", "struct", "map", "duration", "dictionary"],
)
def test_equal_values_of_different_types_are_equal(written: pa.ChunkedArray, read: pa.ChunkedArray) -> None:
    assert column_difference(written, read, "c") == ""


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (column([5], pa.int64()), column([6], pa.int64())),
        (column([None], pa.string()), column([""], pa.string())),
        (column([float("nan")], pa.float64()), column([None], pa.float64())),
        (column([b"a\x00"], pa.binary()), column([b"a"], pa.binary())),
        (column([0.1], pa.float64()), column([0.1], pa.float32())),
        (column([dt.date(2024, 2, 29)], pa.date32()), column([dt.datetime(2024, 2, 29, 1)], pa.timestamp("us"))),
    ],
    ids=["number", "null", "NaN", "bytes", "precision", "hour"],
)
def test_different_values_are_reported(written: pa.ChunkedArray, read: pa.ChunkedArray) -> None:
    assert column_difference(written, read, "c").startswith("c, row 1: expected ")


def test_lost_duplicated_and_unexpected_rows_are_counted() -> None:
    found = pa.concat_tables([plain(8), plain(1, first=3), plain(1, first=99)])
    text = lost_and_doubled(plain(10), found)
    assert text == ("2 of 10 rows lost (id 9, 10); 1 of 10 rows duplicated (id 3); 1 of 10 rows unexpected (id 99)")


def test_order_of_rows_is_ignored() -> None:
    rows = plain(10)
    turned = rows.take(list(reversed(range(10))))
    assert difference(rows, turned) == "" and same_rows(rows, turned) == ""
    assert same_rows(rows, plain(10, word="other")).startswith("a row that only one of both has")
    assert "column half is missing" in difference(rows, rows.drop_columns(["half"]))
