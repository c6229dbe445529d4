"""Every Arrow type is written to its column type and read back equal, by every load method."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.arrow_columns import arrow_of
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.load import Load, load
from gauss.clients.postgres.types import parse_type
from gauss.clients.postgres.write import PostgresTarget
from gauss.plugins.connectors.postgres.catalog import find_relation
from gauss.plugins.connectors.postgres.destination_table import landed
from gauss.plugins.connectors.postgres.names import StreamName
from helpers.cases import cases
from helpers.postgres_destination import DestinationFixture

UTC = datetime.UTC
LOADS: list[Load] = ["copy_binary", "copy", "insert"]
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 59, 123456)
TYPES: list[tuple[pa.DataType, str, list[Any], list[Any]]] = [
    (pa.bool_(), "boolean", [True, False], [True, False]),
    (pa.int8(), "smallint", [-128, 127], [-128, 127]),
    (pa.int16(), "smallint", [-32768, 32767], [-32768, 32767]),
    (pa.int32(), "integer", [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    (pa.int64(), "bigint", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
    (pa.uint8(), "smallint", [255], [255]),
    (pa.uint16(), "integer", [65535], [65535]),
    (pa.uint32(), "bigint", [2**32 - 1], [2**32 - 1]),
    (pa.uint64(), "numeric(20,0)", [2**64 - 1], [Decimal(2**64 - 1)]),
    (pa.float16(), "real", [1.5], [1.5]),
    (pa.float32(), "real", [1.5, math.inf], [1.5, math.inf]),
    (pa.float64(), "double precision", [0.1, -math.inf, 5e-324, 1.7976931348623157e308, -0.0],
     [0.1, -math.inf, 5e-324, 1.7976931348623157e308, -0.0]),
    (pa.decimal128(38, 10), "numeric(38,10)", [Decimal("-1234567890123456789012345678.0000000001")],
     [Decimal("-1234567890123456789012345678.0000000001")]),
    (pa.decimal128(5, -2), "numeric(7,0)", [Decimal("12300")], [Decimal(12300)]),
    (pa.decimal256(60, 20), "numeric(60,20)", [Decimal("1" * 40 + ".5")], [Decimal("1" * 40 + ".5")]),
    (pa.decimal64(10, 2), "numeric(10,2)", [Decimal("0.05")], [Decimal("0.05")]),
    (pa.string(), "text", ["", "naïve ☃ 😀", 'a"b\\c\n\t,\\N', "\\."], ["", "naïve ☃ 😀", 'a"b\\c\n\t,\\N', "\\."]),
    (pa.large_string(), "text", ["x"], ["x"]),
    (pa.string_view(), "text", ["a long text that is not inlined"], ["a long text that is not inlined"]),
    (pa.dictionary(pa.int8(), pa.string()), "text", ["a", "b", "a"], ["a", "b", "a"]),
    (pa.binary(), "bytea", [b"", b"\0\xff\\"], [b"", b"\0\xff\\"]),
    (pa.large_binary(), "bytea", [b"\0x"], [b"\0x"]),
    (pa.binary_view(), "bytea", [b"bytes that are not inlined"], [b"bytes that are not inlined"]),
    (pa.binary(3), "bytea", [b"abc"], [b"abc"]),
    (pa.uuid(), "uuid", [b"\x01" * 16], [uuid.UUID(bytes=b"\x01" * 16)]),
    (pa.json_(), "jsonb", ['{"a": [1]}'], [{"a": [1]}]),
    (pa.date32(), "date", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
     [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.date64(), "date", [datetime.date(2024, 2, 29)], [datetime.date(2024, 2, 29)]),
    (pa.time32("s"), "time without time zone", [datetime.time(23, 59, 59)], [datetime.time(23, 59, 59)]),
    (pa.time64("us"), "time without time zone", [datetime.time(0, 0, 0, 1)], [datetime.time(0, 0, 0, 1)]),
    (pa.time64("ns"), "time without time zone", [1_000], [datetime.time(0, 0, 0, 1)]),
    *(
        (pa.timestamp(unit), "timestamp without time zone", [MOMENT.replace(microsecond=micros)],
         [MOMENT.replace(microsecond=micros)])
        for unit, micros in (("s", 0), ("ms", 123000), ("us", 123456), ("ns", 123456))
    ),
    *(
        (pa.timestamp(unit, "Asia/Kolkata"), "timestamp with time zone", [MOMENT.replace(microsecond=0, tzinfo=UTC)],
         [MOMENT.replace(microsecond=0, tzinfo=UTC)])
        for unit in ("s", "ms", "us", "ns")
    ),
    *(
        (pa.duration(unit), "interval", [datetime.timedelta(days=-3, seconds=7)],
         [datetime.timedelta(days=-3, seconds=7)])
        for unit in ("s", "ms", "us", "ns")
    ),
    (pa.month_day_nano_interval(), "interval", [(0, -2, 3_000), (0, 1, -1_500_000)],
     [datetime.timedelta(days=-2, microseconds=3), datetime.timedelta(days=1, microseconds=-1500)]),
    (pa.null(), "text", [None], [None]),
    (pa.list_(pa.int64()), "bigint[]", [[1, None], []], [[1, None], []]),
    (pa.large_list(pa.large_string()), "text[]", [['a"b', "{,}", "", None, "NULL"]],
     [['a"b', "{,}", "", None, "NULL"]]),
    (pa.list_(pa.int32(), 2), "integer[]", [[1, 2]], [[1, 2]]),
    (pa.list_(pa.list_(pa.int32())), "integer[]", [[[1, 2], [3, None]]], [[[1, 2], [3, None]]]),
    (pa.list_(pa.decimal128(10, 2)), "numeric(10,2)[]", [[Decimal("1.25"), None]], [[Decimal("1.25"), None]]),
    (pa.list_(pa.bool_()), "boolean[]", [[True, None]], [[True, None]]),
    (pa.list_(pa.float64()), "double precision[]", [[0.1, math.inf]], [[0.1, math.inf]]),
    (pa.list_(pa.date32()), "date[]", [[datetime.date(2024, 1, 1)]], [[datetime.date(2024, 1, 1)]]),
    (pa.list_(pa.timestamp("us", "UTC")), "timestamp with time zone[]", [[MOMENT.replace(tzinfo=UTC)]],
     [[MOMENT.replace(tzinfo=UTC)]]),
    (pa.list_(pa.binary()), "bytea[]", [[b"\0\\"]], [[b"\0\\"]]),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), "text[]", [["a"]], [["a"]]),
    (pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), "jsonb", [{"a": 1, "b": ["x", None]}],
     [{"a": 1, "b": ["x", None]}]),
    (pa.map_(pa.string(), pa.decimal128(5, 2)), "jsonb", [[("k", Decimal("1.50"))]], [{"k": 1.5}]),
    (pa.list_(pa.struct([("a", pa.date32())])), "jsonb", [[{"a": datetime.date(2024, 1, 1)}]], [[{"a": "2024-01-01"}]]),
]  # fmt: skip


@pytest.fixture
def destination(postgres: Endpoint, schema: str) -> Iterator[DestinationFixture]:
    made = DestinationFixture(postgres, schema)
    yield made
    made.close()


def columns_of(connection: Connection, schema: str) -> dict[str, str]:
    found = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        [f"{schema}.t"],
    )
    return dict(found.fetchall())


@pytest.mark.parametrize("how", LOADS)
def test_every_arrow_type_is_written_to_its_column_type_and_read_back_equal(
    destination: DestinationFixture, connection: Connection, schema: str, how: Load
) -> None:
    names = {f"c{place}": case for place, case in enumerate(TYPES)}
    longest = max(len(values) for _, _, values, _ in TYPES) + 1
    arrays = {}
    for name, (kind, _, values, _) in names.items():
        padded = [*values, *[None] * (longest - len(values))]
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        made = pa.array(padded, storage)
        arrays[name] = pa.ExtensionArray.from_storage(kind, made) if storage is not kind else made
    rows = pa.record_batch({"n": pa.array(range(longest)), **arrays})
    # A slice, so that offsets of arrays count.
    destination.write([rows.slice(0, 2), rows.slice(2)], load=how)
    found_types = columns_of(connection, schema)
    assert {name: found_types[name] for name in names} == {name: case[1] for name, case in names.items()}
    found = destination.rows()
    for place, (name, (kind, _, _, expected)) in enumerate(names.items(), start=1):
        values = [row[place] for row in found]
        assert values == [*expected, *[None] * (longest - len(expected))], (name, kind)


@pytest.mark.parametrize("how", LOADS)
def test_nan_and_dates_bc_are_written(
    destination: DestinationFixture, connection: Connection, schema: str, how: Load
) -> None:
    days, micros = -719_529, -62_135_596_800_000_001 - 86_400_000_000
    rows = pa.record_batch(
        {
            "f": pa.array([math.nan, None]),
            "g": pa.array([math.nan, None], pa.float32()),
            "d": pa.array([days, None], pa.date32()),
            "t": pa.array([micros, None], pa.timestamp("us")),
            "z": pa.array([micros, None], pa.timestamp("us", "UTC")),
        }
    )
    destination.write([rows], load=how)
    shown = connection.execute(
        f"SELECT f::text, g::text, d::text, t::text, z::text FROM {schema}.t WHERE f IS NOT NULL".encode()
    ).fetchall()
    moment = "0001-12-30 23:59:59.999999"
    assert shown == [("NaN", "NaN", "0002-12-31 BC", f"{moment} BC", f"{moment}+00 BC")]


NATIVE = [
    *("smallint", "integer", "bigint", "real", "double precision", "boolean", "text", "character varying(20)"),
    *("character(3)", "bytea", "date", "time without time zone", "time with time zone", "uuid", "json", "jsonb"),
    *("timestamp without time zone", "timestamp(3) with time zone", "interval", "inet", "cidr", "macaddr", "xml"),
    *("numeric", "numeric(10,2)", "numeric(60,20)", "money", "bit(3)", "bit varying(5)", "tsvector", "int4range"),
    *("point", "integer[]", "text[]", "numeric(10,2)[]", "uuid[]", "timestamp with time zone[]"),
]


@pytest.mark.parametrize("native", NATIVE)
def test_column_read_from_postgres_keeps_its_type(native: str) -> None:
    found = landed(pa.schema([pa.field("a", pa.string(), metadata={"postgres_type": native})]))
    assert found.field("a").type == arrow_of(parse_type(native))
    again = landed(found)
    assert again.field("a").metadata == found.field("a").metadata


def test_types_of_other_databases_are_written_as_text() -> None:
    for native in ("shop.mood", '"My Type"', 'a."b"[]'):
        field = pa.field("a", pa.string(), metadata={"postgres_type": native})
        assert landed(pa.schema([field])).field("a").metadata == {b"postgres_type": b"TEXT"}


def test_arrow_type_of_a_column_is_the_one_that_the_source_reads(connection: Connection, schema: str) -> None:
    lines = ", ".join(f"c{place} {native}" for place, native in enumerate(NATIVE))
    connection.execute(f"CREATE TABLE {schema}.t ({lines})".encode())
    relation = find_relation(connection, StreamName(schema, "t"))
    assert {each.type_text: each.reading.arrow for each in relation.columns} == {
        native: arrow_of(parse_type(native)) for native in NATIVE
    }


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
KINDS = {
    "a": (pa.int64(), "bigint", st.integers(-(2**63), 2**63 - 1)),
    "b": (pa.string(), "text", TEXTS),
    "c": (pa.decimal128(30, 8), "numeric(30,8)", st.decimals(-(10**20), 10**20, places=8)),
    "d": (pa.timestamp("us"), "timestamp", st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))),
    "e": (pa.float64(), "double precision", st.floats(allow_nan=False)),
    "f": (pa.list_(pa.string()), "text[]", st.lists(TEXTS | st.none(), max_size=4)),
    "g": (pa.binary(), "bytea", st.binary(max_size=20)),
    "h": (pa.duration("us"), "interval", st.timedeltas(datetime.timedelta(-999), datetime.timedelta(999))),
}


@settings(max_examples=cases(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*(values | st.none() for _, _, values in KINDS.values())), min_size=1, max_size=12))
def test_any_rows_read_back_equal_the_written_ones(connection: Connection, values: list[tuple[Any, ...]]) -> None:
    columns = {
        name: pa.array([row[place] for row in values], kind) for place, (name, (kind, _, _)) in enumerate(KINDS.items())
    }
    rows = pa.record_batch({"n": pa.array(range(len(values)), pa.int32()), **columns})
    types = {"n": parse_type("integer"), **{name: parse_type(text) for name, (_, text, _) in KINDS.items()}}
    lines = ", ".join(f"{name} {text}" for name, (_, text, _) in KINDS.items())
    for how in LOADS:
        with connection.transaction(force_rollback=True):
            connection.execute(f"CREATE TEMP TABLE anything (n integer, {lines})".encode())
            load(connection, PostgresTarget("pg_temp.anything", types), rows, how)
            found = connection.execute("SELECT * FROM pg_temp.anything ORDER BY n").fetchall()
        assert [row[1:] for row in found] == values, how
