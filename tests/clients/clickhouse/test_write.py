"""Columnar inserts into a real ClickHouse."""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.clickhouse.quote import identifier
from gauss.clients.clickhouse.types import parse_type
from gauss.clients.clickhouse.write import ClickHouseTarget, execute, insert, query_arrow, read_back, token
from gauss.clients.errors import RowError
from gauss.model.errors import ConfigError

WINDOW = "SETTINGS non_replicated_deduplication_window = 100"


def make(
    client: Client, table: str, columns: Mapping[str, str], engine: str = "MergeTree ORDER BY tuple()"
) -> ClickHouseTarget:
    lines = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
    execute(client, [f"CREATE TABLE {identifier(table)} ({lines}) ENGINE = {engine} {WINDOW}"])
    return ClickHouseTarget(
        identifier(table), {name: parse_type(kind.split(" DEFAULT")[0]) for name, kind in columns.items()}
    )


def values_of(client: Client, table: ClickHouseTarget) -> list[Any]:
    return [row[0] for row in client.query(f"SELECT v FROM {table.name} ORDER BY n").result_rows]


MAP_OF_INTS = pa.list_(pa.struct([("key", pa.int64()), ("value", pa.string())]))
PART = pa.struct([("a", pa.int64()), ("b", pa.string())])
USUAL = "123e4567-e89b-12d3-a456-426614174000"
LATE = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000)
CASES: list[tuple[str, pa.DataType, list[Any], list[Any]]] = [
    *((f"{u}Int{n}", pa.int64(), [5], [5]) for u in ("", "U") for n in (8, 16, 32, 64, 128, 256)),
    ("UInt64", pa.uint64(), [2**64 - 1], [2**64 - 1]),
    ("UInt64", pa.decimal128(20, 0), [Decimal(2**64 - 1)], [2**64 - 1]),
    ("Int128", pa.decimal128(38, 0), [Decimal(-(10**37))], [-(10**37)]),
    ("Int256", pa.string(), ["-" + "9" * 70], [-int("9" * 70)]),
    ("UInt8", pa.bool_(), [True, False], [1, 0]),
    ("Bool", pa.bool_(), [True], [True]),
    ("Float64", pa.float64(), [0.1, float("inf"), -0.0], [0.1, float("inf"), -0.0]),
    ("Float32", pa.float64(), [1.5], [1.5]),
    ("Decimal64(8)", pa.decimal128(18, 8), [Decimal("-1.00000001")], [Decimal("-1.00000001")]),
    ("Decimal(38, 10)", pa.decimal128(38, 10), [Decimal("9" * 28 + ".1")], [Decimal("9" * 28 + ".1")]),
    ("Decimal(18, 8)", pa.decimal128(38, 10), [Decimal("1.5")], [Decimal("1.5")]),
    ("Decimal256(10)", pa.string(), ["1" * 60 + ".5"], [Decimal("1" * 60 + ".5")]),
    ("Decimal(76, 10)", pa.decimal256(76, 10), [Decimal("1" * 60)], [Decimal("1" * 60)]),
    ("String", pa.string(), ["", "naïve ☃ 😀\0"], ["", "naïve ☃ 😀\0"]),
    ("String", pa.int64(), [5], ["5"]),
    ("String", pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"], ["a", "b", "a"]),
    ("FixedString(4)", pa.string(), ["ab"], [b"ab\0\0"]),
    ("LowCardinality(String)", pa.string(), ["x"], ["x"]),
    ("LowCardinality(Nullable(String))", pa.string(), ["x", None], ["x", None]),
    ("Nullable(Int64)", pa.int64(), [None, 1], [None, 1]),
    ("Nullable(Int8)", pa.null(), [None], [None]),
    ("DateTime64(3)", pa.timestamp("us", tz="UTC"), [1_700_000_000_123_999], [LATE]),
    ("DateTime64(3)", pa.timestamp("ms"), [-1], [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)]),
    ("DateTime64(6)", pa.int64(), [1], [datetime.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    ("Nullable(DateTime64(3))", pa.timestamp("us", tz="UTC"), [None, 0], [None, datetime.datetime(1970, 1, 1)]),
    ("DateTime", pa.timestamp("us"), [1_700_000_000_999_999], [datetime.datetime(2023, 11, 14, 22, 13, 20)]),
    ("Date", pa.date32(), [datetime.date(2020, 1, 1)], [datetime.date(2020, 1, 1)]),
    ("Date32", pa.date32(), [datetime.date(1920, 1, 1)], [datetime.date(1920, 1, 1)]),
    ("UUID", pa.string(), [USUAL], [uuid.UUID(USUAL)]),
    ("UUID", pa.binary(16), [bytes(range(16))], [uuid.UUID(bytes=bytes(range(16)))]),
    ("IPv4", pa.string(), ["10.0.0.1"], [ipaddress.ip_address("10.0.0.1")]),
    ("IPv4", pa.int64(), [1], [ipaddress.ip_address("0.0.0.1")]),
    ("IPv6", pa.string(), ["::1"], [ipaddress.ip_address("::1")]),
    ("Enum8('a' = 1, 'b' = 2)", pa.string(), ["b"], ["b"]),
    ("Array(Int32)", pa.list_(pa.int64()), [[1, 2], []], [[1, 2], []]),
    ("Array(Nullable(String))", pa.list_(pa.string()), [["a", None]], [["a", None]]),
    ("Array(Array(Int8))", pa.list_(pa.list_(pa.int64())), [[[1], []]], [[[1], []]]),
    ("Map(String, Int32)", pa.map_(pa.string(), pa.int64()), [[("a", 1)]], [{"a": 1}]),
    ("Map(Int64, String)", MAP_OF_INTS, [[{"key": 1, "value": "x"}], []], [{1: "x"}, {}]),
    ("Tuple(a Int8, b String)", PART, [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
    ("Tuple(Int8, String)", pa.struct([("f0", pa.int64()), ("f1", pa.string())]), [{"f0": 1, "f1": "x"}], [(1, "x")]),
    ("JSON", pa.string(), ['{"a": 1}'], [{"a": 1}]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_values_of_each_type_are_written_unchanged(
    client: Client, table: str, case: tuple[str, pa.DataType, list[Any], list[Any]]
) -> None:
    kind, arrow, values, expected = case
    made = make(client, table, {"n": "Int32", "v": kind})
    rows = pa.table({"n": pa.array(range(len(values)), pa.int32()), "v": pa.array(values, arrow)})
    insert(client, made, rows, token="a")
    assert values_of(client, made) == expected


def test_text_that_is_not_utf8_is_written_as_bytes(client: Client, table: str) -> None:
    made = make(client, table, {"v": "String"})
    insert(client, made, pa.table({"v": pa.array([b"\xff\x00"], pa.binary())}), token="a")
    assert client.query(f"SELECT hex(v) FROM {made.name}").result_rows == [("FF00",)]


def test_nanoseconds_are_kept(client: Client, table: str) -> None:
    made = make(client, table, {"v": "DateTime64(9)"})
    rows = pa.table({"v": pa.array([1_700_000_000_123_456_789], pa.int64())})
    insert(client, made, rows, token="a")
    insert(client, made, rows.cast(pa.schema([("v", pa.timestamp("ns"))])), token="b")
    query = f"SELECT DISTINCT toUnixTimestamp64Nano(v) FROM {made.name}"
    assert client.query(query).result_rows == [(1_700_000_000_123_456_789,)]


REFUSED: list[tuple[str, pa.DataType, list[Any]]] = [
    ("Int8", pa.int64(), [500]),
    ("UInt8", pa.int64(), [-1]),
    ("Int64", pa.float64(), [1.5]),
    ("Int64", pa.uint64(), [2**63]),
    ("UInt64", pa.decimal128(20, 0), [Decimal(-1)]),
    ("Decimal(18, 8)", pa.decimal128(38, 10), [Decimal("0.0000000001")]),
    ("Decimal(9, 2)", pa.decimal128(38, 2), [Decimal("12345678901.00")]),
    ("Array(Int8)", pa.list_(pa.int64()), [[1, 500]]),
    ("Int64", pa.int64(), [1, None]),
    ("Int64", pa.string(), ["x"]),
    ("Date", pa.date32(), [datetime.date(1920, 1, 1)]),
    ("DateTime", pa.timestamp("s"), [-1]),
    ("DateTime64(3)", pa.timestamp("us"), [20_000_000_000_000_000]),
    ("Nullable(DateTime64(3))", pa.timestamp("us"), [None, 20_000_000_000_000_000]),
    ("Enum8('a' = 1)", pa.string(), ["z"]),
    ("FixedString(2)", pa.string(), ["abc"]),
    ("UUID", pa.string(), ["nope"]),
    ("IPv4", pa.string(), ["nope"]),
    ("JSON", pa.string(), ["{"]),
]


@pytest.mark.parametrize(("kind", "arrow", "values"), REFUSED, ids=str)
def test_value_that_does_not_fit_is_a_row_error_and_nothing_is_written(
    client: Client, table: str, kind: str, arrow: pa.DataType, values: list[Any]
) -> None:
    made = make(client, table, {"v": kind})
    with pytest.raises(RowError):
        insert(client, made, pa.table({"v": pa.array(values, arrow)}), token="a")
    assert client.command(f"SELECT count() FROM {made.name}") == 0


def test_row_error_names_the_column(client: Client, table: str) -> None:
    made = make(client, table, {"price": "Int64"})
    with pytest.raises(RowError) as caught:
        insert(client, made, pa.table({"price": pa.array([None], pa.int64())}), token="a")
    assert caught.value.column == "price"
    assert "version" not in caught.value.message and "http" not in caught.value.message


def test_missing_columns_get_their_default(client: Client, table: str) -> None:
    made = make(client, table, {"a": "Int64", "b": "String DEFAULT 'x'"})
    insert(client, made, pa.table({"a": [1]}), token="a")
    assert client.query(f"SELECT a, b FROM {made.name}").result_rows == [(1, "x")]


def test_insert_with_a_known_token_is_deduplicated(client: Client, table: str) -> None:
    made = make(client, table, {"a": "Int64"})
    rows = pa.table({"a": range(1000)})
    for name in ("one", "one", "two"):
        insert(client, made, rows, token=name)
    assert client.command(f"SELECT count() FROM {made.name}") == 2000


def test_token_identifies_one_range() -> None:
    base = {"inc": 1, "generation": 0, "start": 0, "stop": 9}
    other = [{**base, key: value + 1} for key, value in base.items()]
    found = {token("t", "topic", **parts) for parts in [base, base, *other]}
    assert len(found) == 5
    assert token("a", "b", **base) != token("a\0b", "", **base)


def test_read_back_counts_the_rows_of_each_offset(client: Client, table: str) -> None:
    made = make(client, table, {"_inc": "Int64", "_offset": "Int64"})
    for inc, offsets in ((1, [0, 1, 1, 3, 9]), (2, [2])):
        rows = pa.table({"_inc": pa.array([inc] * len(offsets)), "_offset": offsets})
        insert(client, made, rows, token=str(inc))
    found = read_back(client, made, inc=1, start=0, stop=9)
    assert found.to_pydict() == {"offset": [0, 1, 3], "rows": [1, 2, 1]}
    assert read_back(client, made, inc=5, start=0, stop=9).num_rows == 0


def test_dropped_table_is_a_config_error_with_a_hint(client: Client, table: str) -> None:
    made = make(client, table, {"a": "Int64"})
    execute(client, [f"DROP TABLE {made.name}"])
    with pytest.raises(ConfigError, match="does not exist") as caught:
        insert(client, made, pa.table({"a": [1]}), token="a")
    assert "CREATE TABLE" in caught.value.hint


def test_rows_are_written_to_tables_and_columns_with_hostile_names(client: Client, table: str) -> None:
    names = ["`", "a`b\\c'd\"e", "select", "x" * 300, "é 😀", "format"]
    made = make(client, table, dict.fromkeys(names, "Int64"))
    insert(client, made, pa.table({name: [1] for name in names}), token="a")
    assert client.query(f"SELECT * FROM {made.name}").result_rows == [(1,) * len(names)]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1) | st.none(),
            st.text(st.characters(codec="utf-8")) | st.none(),
            st.decimals(-(10**20), 10**20, places=8) | st.none(),
            st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2299, 12, 31)) | st.none(),
            st.floats(allow_nan=False) | st.none(),
            st.lists(st.text(st.characters(codec="utf-8"))),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_rows_read_back_equal_the_written_ones(client: Client, values: list[tuple[Any, ...]]) -> None:
    kinds = {
        "n": (pa.int64(), "Int64"),
        "a": (pa.int64(), "Nullable(Int64)"),
        "b": (pa.string(), "Nullable(String)"),
        "c": (pa.decimal128(38, 8), "Nullable(Decimal128(8))"),
        "d": (pa.timestamp("us"), "Nullable(DateTime64(6, 'UTC'))"),
        "e": (pa.float64(), "Nullable(Float64)"),
        "f": (pa.list_(pa.string()), "Array(String)"),
    }
    name = f"any_{uuid.uuid4().hex}"
    made = make(client, name, {column: kind for column, (_, kind) in kinds.items()})
    rows = [(number, *value) for number, value in enumerate(values)]
    columns = {
        column: pa.array([row[place] for row in rows], arrow)
        for place, (column, (arrow, _)) in enumerate(kinds.items())
    }
    insert(client, made, pa.table(columns), token="a")
    found = query_arrow(client, f"SELECT * FROM {made.name} ORDER BY n")
    schema = pa.schema([(column, arrow) for column, (arrow, _) in kinds.items()])
    got = [tuple(row.values()) for row in found.cast(schema).to_pylist()]
    execute(client, [f"DROP TABLE {made.name}"])
    assert got == rows
