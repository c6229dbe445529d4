"""Every Arrow type with a null and edge values, schema evolution, and hostile names."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.clickhouse.arrow_columns import column_of, nullable
from gauss.clients.clickhouse.types import parse_type, render_type
from gauss.clients.postgres.arrow_columns import TYPE_KEY
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.stream import (
    Append,
    ColumnPolicy,
    NullabilityPolicy,
    Replace,
    SchemaEvolutionPolicy,
    TypeChangePolicy,
    Upsert,
)
from helpers.destinations import FULL, INCREMENTAL, batch
from plugins.connectors.clickhouse.writing import DestinationFixture

D = decimal.Decimal
NIL = uuid.UUID(int=0)
UTC = dt.UTC

# Arrow type, column type, values (the last is null), what a query returns (default: the values)
CASES: list[tuple[Any, ...]] = [
    (pa.bool_(), "Nullable(Bool)", [True, False, None]),
    *((kind, f"Nullable({str(kind).capitalize()})", [-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1, None])
      for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, f"Nullable(U{str(kind)[1:].capitalize()})", [0, 2**kind.bit_width - 1, None])
      for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float16(), "Nullable(Float32)", [1.5, -0.0, None]),
    (pa.float32(), "Nullable(Float32)", [1.5, float("inf"), None]),
    (pa.float64(), "Nullable(Float64)", [5e-324, float("-inf"), None]),
    *((kind, "Nullable(String)", ["", "ж\0\n'", None]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, "Nullable(String)", [b"", b"ab", None], ["", "ab", None])
      for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(2), "Nullable(String)", [b"ab", b"cd", None], ["ab", "cd", None]),
    (pa.null(), "Nullable(String)", [None, None, None]),
    (pa.date32(), "Nullable(Date32)", [dt.date(1970, 1, 1), dt.date(1900, 1, 1), None]),
    (pa.date64(), "Nullable(Date32)", [dt.date(2299, 12, 31), dt.date(2026, 2, 28), None]),
    (pa.decimal128(12, 2), "Nullable(Decimal(12, 2))", [D("-0.01"), D("9999999999.99"), None]),
    (pa.decimal128(38, 6), "Nullable(Decimal(38, 6))", [D("0.000000"), D("1" * 32 + ".000001"), None]),
    (pa.decimal256(76, 0), "Nullable(Decimal(76, 0))", [D("9" * 76), D(-1), None]),
    (pa.decimal128(3, -2), "Nullable(Decimal(5, 0))", [D(12300), D(-100), None]),
    (pa.timestamp("s", tz="UTC"), "Nullable(DateTime64(0, 'UTC'))",
     [dt.datetime(1970, 1, 1), dt.datetime(2299, 12, 31), None]),
    (pa.timestamp("us"), "Nullable(DateTime64(6, 'UTC'))",
     [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1900, 1, 1), None]),
    (pa.timestamp("ns", tz="Europe/Paris"), "Nullable(DateTime64(9, 'UTC'))",
     [dt.datetime(2026, 1, 1, 12, tzinfo=UTC), dt.datetime(1970, 1, 1, tzinfo=UTC), None]),
    (pa.time32("s"), "Nullable(Int64)",
     [dt.time(0, 0, 1), dt.time(23, 59, 59), None], [1_000_000, 86_399_000_000, None]),
    (pa.time64("us"), "Nullable(Int64)", [dt.time(0), dt.time(0, 0, 0, 7), None], [0, 7, None]),
    (pa.duration("ms"), "Nullable(Int64)", [dt.timedelta(milliseconds=2), dt.timedelta(-1), None],
     [2_000_000, -86_400 * 10**9, None]),
    (pa.month_day_nano_interval(),
     "Tuple(`months` Nullable(Int32), `days` Nullable(Int32), `nanoseconds` Nullable(Int64))",
     [(1, -2, 3), (0, 0, 0), None], [(1, -2, 3), (0, 0, 0), (None, None, None)]),
    (pa.uuid(), "Nullable(UUID)", [NIL.bytes, uuid.UUID(int=7).bytes, None], [NIL, uuid.UUID(int=7), None]),
    (pa.list_(pa.int32()), "Array(Nullable(Int32))", [[1, None], [], None], [[1, None], [], []]),
    (pa.large_list(pa.string()), "Array(Nullable(String))", [["a"], [None], None], [["a"], [None], []]),
    (pa.list_(pa.list_(pa.int8())), "Array(Array(Nullable(Int8)))", [[[1], None], [], None], [[[1], []], [], []]),
    (pa.list_(pa.struct([("a", pa.int8())])), "Array(Tuple(`a` Nullable(Int8)))", [[{"a": 1}, None], [], None],
     [[(1,), (None,)], [], []]),
    (pa.struct([("a b", pa.int64()), ("s", pa.struct([("c", pa.string())]))]),
     "Tuple(`a b` Nullable(Int64), `s` Tuple(`c` Nullable(String)))",
     [{"a b": 1, "s": {"c": "x"}}, {"a b": None, "s": None}, None], [(1, ("x",)), (None, (None,)), (None, (None,))]),
    (pa.map_(pa.string(), pa.int16()), "Map(String, Nullable(Int16))", [[("a", 1)], [("b", None)], None],
     [{"a": 1}, {"b": None}, {}]),
    (pa.dictionary(pa.int8(), pa.string()), "Nullable(String)", ["a", "b", None]),
]  # fmt: skip


def test_every_arrow_type_is_written_with_edge_values_and_a_null(destination: DestinationFixture) -> None:
    names = [f"c{place}" for place in range(len(CASES))]
    columns = {name: _array(case[0], case[2]) for name, case in zip(names, CASES, strict=True)}
    rows = pa.record_batch({"a": pa.array([1, 2, 3]), **columns})
    destination.write([rows], destination.stream(FULL, Replace()))
    kinds = dict(destination.query(f"SELECT name, type FROM system.columns WHERE database = '{destination.database}'"))
    for name, case in zip(names, CASES, strict=True):
        assert render_type(parse_type(kinds[name])) == render_type(nullable(column_of(case[0]))) == case[1]
    found = destination.rows(columns=", ".join(names), order="a")
    for place, case in enumerate(CASES):
        expected = case[3] if len(case) > 3 else case[2]
        assert [_plain(row[place]) for row in found] == [_plain(value) for value in expected], case[0]


def _array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_float16(kind):
        return pa.array(values, pa.float32()).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def _plain(value: Any) -> Any:
    """A value without what clients add: names of a tuple's elements, and zones."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, list | tuple):
        return tuple(_plain(each) for each in value)
    if isinstance(value, dict):
        return tuple(_plain(each) for each in value.values())
    return value


def test_nan_and_infinity_are_written_unchanged(destination: DestinationFixture) -> None:
    destination.write([batch(a=[1, 2], f=[float("nan"), float("inf")])])
    assert destination.rows(columns="a, isNaN(f), isInfinite(f)") == [(1, 1, 0), (2, 0, 1)]


def test_uuids_of_a_postgres_source_become_uuids(destination: DestinationFixture) -> None:
    schema = pa.schema([
        pa.field("u", pa.string(), metadata={TYPE_KEY: b"uuid"}),
        pa.field("v", pa.list_(pa.string()), metadata={TYPE_KEY: b"uuid[]"}),
    ])  # fmt: skip
    given = [[str(NIL), None, "nonsense"], [[str(NIL), None], None, []]]
    done = destination.write([pa.record_batch([pa.array(each) for each in given], schema=schema)])
    assert destination.rows(order="u NULLS FIRST") == [(None, []), (NIL, [NIL, None])]
    ((_, rejected, error),) = done.seen.letters
    assert rejected.column("u")[0].as_py() == "nonsense" and error.details["column"] == "u"


def test_time_out_of_range_is_rejected_and_the_others_are_written(destination: DestinationFixture) -> None:
    times = pa.array([dt.datetime(2026, 1, 1), dt.datetime(9999, 1, 1), dt.datetime(2027, 1, 1)], pa.timestamp("us"))
    done = destination.write([batch(a=[1, 2, 3], t=times)])
    assert destination.rows(columns="a") == [(1,), (3,)]
    ((_, rejected, error),) = done.seen.letters
    assert rejected.column("a").to_pylist() == [2]
    assert (error.category, error.code, error.details["column"]) == (ErrorCategory.DATA, "OUT_OF_RANGE", "t")


def test_rows_that_the_server_refuses_are_rejected_individually(destination: DestinationFixture) -> None:
    destination.write([batch(a=[0])])
    destination.run_sql(f"ALTER TABLE {destination.database}.t ADD CONSTRAINT c CHECK a NOT IN (13, 77)")
    done = destination.write([batch(a=list(range(1, 101)))], generation=2)
    assert destination.rows(columns="count(), sum(a)") == [(99, 5050 - 13 - 77)]
    assert [rows.column("a").to_pylist() for _, rows, _ in done.seen.letters] == [[13], [77]]
    assert {error.category for _, _, error in done.seen.letters} == {ErrorCategory.DATA}
    assert done.summary.records_written == 98


def test_new_column_is_added_and_old_rows_have_null(destination: DestinationFixture) -> None:
    destination.write([batch(a=[1])])
    destination.write([batch(a=[2], b=["x"], l=[[1]])], generation=2)
    assert destination.rows() == [(1, None, []), (2, "x", [1])]


def test_column_is_made_nullable(destination: DestinationFixture) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), False), pa.field("b", pa.string(), False)])
    destination.write([pa.record_batch([[1], ["x"]], schema=schema)])
    destination.write([batch(a=[2], b=pa.array([None], pa.string()))], generation=2)
    assert destination.rows() == [(1, "x"), (2, None)]
    # The sorting key stays as it is; a row without it is refused by itself.
    done = destination.write([batch(a=pa.array([None, 3], pa.int64()), b=["y", "z"])], generation=3)
    assert destination.rows(columns="a") == [(1,), (2,), (3,)] and len(done.seen.letters) == 1


@pytest.mark.parametrize(
    ("policy", "rows", "text"),
    [
        (SchemaEvolutionPolicy(new_column=ColumnPolicy.FAIL), batch(a=[2], b=["x"], c=[1]), "c is new"),
        (SchemaEvolutionPolicy(removed_column=ColumnPolicy.FAIL), batch(a=[2]), "b is gone"),
        (SchemaEvolutionPolicy(type_change=TypeChangePolicy.FAIL), batch(a=["2"], b=["x"]), "a is string"),
    ],
)
def test_fail_policy_leaves_the_table_unchanged(
    destination: DestinationFixture, policy: SchemaEvolutionPolicy, rows: pa.RecordBatch, text: str
) -> None:
    destination.write([batch(a=[1], b=["x"])])
    with pytest.raises(ConnectorError, match=text):
        destination.write([rows], destination.stream(evolution=policy), generation=2)
    assert destination.rows() == [(1, "x")]


def test_values_of_a_changed_type_are_converted_or_written_as_null(destination: DestinationFixture) -> None:
    destination.write([batch(a=[1], b=["x"])])
    done = destination.write([batch(a=["2", "many"], b=[7, 8])], generation=2, fits=True)
    assert destination.rows() == [(1, "x"), (2, "7")] and len(done.seen.letters) == 1
    nulls = SchemaEvolutionPolicy(type_change=TypeChangePolicy.NULL, new_column=ColumnPolicy.IGNORE)
    destination.write([batch(a=[3], b=[9], c=[1])], destination.stream(evolution=nulls), generation=3, fits=True)
    assert destination.rows() == [(1, "x"), (2, "7"), (3, None)]
    refuses = SchemaEvolutionPolicy(nullability_change=NullabilityPolicy.FAIL)
    destination.write([batch(a=[4], b=["y"])], destination.stream(evolution=refuses), generation=4)


def test_existing_table_is_used_unchanged(destination: DestinationFixture) -> None:
    destination.run_sql(
        f"CREATE DATABASE {destination.database}",
        f"CREATE TABLE {destination.database}.t"
        " (a Int32, p UInt8 DEFAULT 5, m Int64 MATERIALIZED a * 2, e Enum8('x' = 1))"
        " ENGINE = MergeTree PARTITION BY a % 2 ORDER BY (a, e)",
    )
    rows = batch(a=pa.array([1, 2, 3], pa.int32()), e=["x", "x", "other"])
    done = destination.write([rows, rows])
    assert destination.rows(columns="a, p, m, e") == [(1, 5, 2, "x")] * 2 + [(2, 5, 4, "x")] * 2
    assert len(done.seen.letters) == 2
    with pytest.raises(ConnectorError, match="engine"):
        destination.run_sql(f"CREATE TABLE {destination.database}.s (a Int64) ENGINE = SummingMergeTree ORDER BY a")
        destination.write([batch(a=[1])], destination.stream(name="s"), generation=2)
    with pytest.raises(ConnectorError, match=r"upsert into .* needs ReplacingMergeTree\(_version, _deleted\)"):
        destination.write([rows], destination.stream(INCREMENTAL, Upsert(["a"])), generation=2)


def test_table_with_nullable_partitions_a_view_and_a_projection_gets_each_row_once(
    destination: DestinationFixture,
) -> None:
    destination.run_sql(
        f"CREATE DATABASE {destination.database}",
        f"CREATE TABLE {destination.database}.t (a Int64, s Nullable(String), d Date DEFAULT today(),"
        " PROJECTION p (SELECT s, count() GROUP BY s)) ENGINE = MergeTree PARTITION BY (a % 2, s) ORDER BY a"
        " TTL d + INTERVAL 1 YEAR SETTINGS allow_nullable_key = 1",
        f"CREATE MATERIALIZED VIEW {destination.database}.v ENGINE = MergeTree ORDER BY a"
        f" AS SELECT a FROM {destination.database}.t",
    )
    rows = batch(a=[1, 2, 3, 4], s=["x", None, "it's \\ ü", ""])
    destination.write([rows, rows])
    destination.write([rows], destination.stream(FULL, Append()), generation=2)
    expected = sorted(zip(*rows.to_pydict().values(), strict=True))
    assert destination.rows(columns="a, s") == [row for row in expected for _ in range(3)]
    assert destination.rows("v", columns="count()") == [(12,)] and destination.stages() == []


def _table(destination: DestinationFixture, kind: str) -> None:
    """A table of the user's, with a column `v`."""
    destination.run_sql(
        f"CREATE DATABASE {destination.database}",
        f"CREATE TABLE {destination.database}.t (a Int64, v {kind}) ENGINE = MergeTree ORDER BY a",
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Nullable(IPv4)", "not an address"),
        ("LowCardinality(Nullable(FixedString(2)))", "too long"),
        ("Array(Nullable(IPv4))", ["not an address"]),
        ("Tuple(x Array(Nullable(Int128)))", {"x": ["no number"]}),
    ],
)
def test_text_that_would_silently_become_null_is_refused(
    destination: DestinationFixture, kind: str, value: object
) -> None:
    _table(destination, kind)
    with pytest.raises(ConnectorError, match="would store null"):
        destination.write([batch(a=[1], v=pa.array([value]))])


@pytest.mark.parametrize(
    ("kind", "arrow", "good", "bad"),
    [
        ("Array(DateTime('UTC'))", pa.list_(pa.timestamp("s")), [dt.datetime(2026, 1, 1)], [dt.datetime(1960, 1, 1)]),
        (
            *("Map(String, DateTime('UTC'))", pa.map_(pa.string(), pa.timestamp("s"))),
            *([("k", dt.datetime(2026, 1, 1))], [("k", dt.datetime(2200, 1, 1))]),
        ),
        ("Tuple(x Nullable(UUID))", pa.struct([("x", pa.string())]), {"x": str(NIL)}, {"x": "nonsense"}),
        ("Map(String, Nullable(UUID))", pa.map_(pa.string(), pa.string()), [("k", str(NIL))], [("k", "nonsense")]),
    ],
)
def test_nested_value_that_would_be_changed_is_rejected(
    destination: DestinationFixture, kind: str, arrow: pa.DataType, good: object, bad: object
) -> None:
    _table(destination, kind)
    done = destination.write([batch(a=[1, 2, 3], v=pa.array([good, bad, good], arrow))])
    assert destination.rows(columns="a") == [(1,), (3,)]
    ((_, rejected, error),) = done.seen.letters
    assert rejected.column("a").to_pylist() == [2] and error.details["column"] == "v"


NAMES = [
    "select",
    "a`b",
    'a"b',
    "a'b",
    "a\\b",
    "a.b",
    "ж",
    " ",
    "%s",
    "{a:String}",
    "a;DROP TABLE t",
    "_gauss",
    "Ä" * 20,
]


@pytest.mark.parametrize("write", [Append(), Upsert(NAMES[:3])], ids=["append", "upsert"])
def test_hostile_column_names_are_quoted(destination: DestinationFixture, write: Append | Upsert) -> None:
    rows = pa.record_batch({name: [place] for place, name in enumerate(NAMES)})
    for generation in (1, 2):
        destination.write([rows], destination.stream(INCREMENTAL, write), generation=generation)
    found = destination.rows(final=isinstance(write, Upsert))
    assert [row[: len(NAMES)] for row in found] == [tuple(range(len(NAMES)))] * (1 if isinstance(write, Upsert) else 2)


@pytest.mark.parametrize("name", ["_part", "_partition_id"])
@pytest.mark.parametrize("of_the_user", [False, True], ids=["new", "existing"])
def test_column_that_hides_a_virtual_column_is_refused_for_append(
    destination: DestinationFixture, name: str, of_the_user: bool
) -> None:
    rows = batch(a=[1], **{name: pa.array([None], pa.string())})
    if of_the_user:
        destination.run_sql(
            f"CREATE DATABASE {destination.database}",
            f"CREATE TABLE {destination.database}.t (a Int64, {name} Nullable(String)) ENGINE = MergeTree ORDER BY a",
        )
    with pytest.raises(ConnectorError, match=f"has {name}, which ClickHouse has itself"):
        destination.write([batch(a=[1]) if of_the_user else rows])
    destination.write([rows], destination.stream(FULL, Replace()), generation=2)
    assert destination.rows(columns=f"a, {name}") == [(1, None)]


@pytest.mark.parametrize("name", ["a`b", "a'b\\", 'public."a.b"', "Ж -- x"])
def test_hostile_table_names_are_quoted(destination: DestinationFixture, name: str) -> None:
    stream = destination.stream(FULL, Replace(), name=name)
    for generation in (1, 2):
        destination.write([batch(a=[generation])], stream, generation=generation)
    table = "a.b" if "." in name else name
    assert destination.rows(table) == [(2,)]


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "a*b"])
def test_invalid_table_name_is_refused(destination: DestinationFixture, name: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        destination.write([batch(a=[1])], destination.stream(name=name))
    assert caught.value.category is ErrorCategory.CONFIG
