"""Rows that a table refuses, hostile names, and rows that are passed on as binary COPY."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.copy_rows import split_rows
from gauss.clients.postgres.quote import identifier, qualified
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory, ErrorScope
from gauss.contracts.connector.host import Opaque
from gauss.contracts.connector.stream import Append, DataErrorPolicy, Replace, Upsert, WriteMode
from gauss.plugins.connectors.postgres.names import StreamName
from helpers.destinations import FULL, INCREMENTAL, batch, emit
from helpers.postgres_destination import DestinationFixture

LOADS = ["copy_binary", "copy", "insert"]


@pytest.fixture
def destination(postgres: Endpoint, schema: str) -> Iterator[DestinationFixture]:
    made = DestinationFixture(postgres, schema)
    yield made
    made.close()


TOO_LONG_FOR_AN_INDEX = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(250))
BAD: list[tuple[str, pa.Array, int, str]] = [
    ("varchar(3)", pa.array(["ok", "too long", "yes"]), 1, "TOO_LONG"),
    ("text", pa.array(["ok", "a\0b", "yes"]), 1, "ENCODING"),
    ("bigint NOT NULL", pa.array([None, 2, 3], pa.int64()), 0, "NULL"),
    ("smallint", pa.array([1, 2, 70_000]), 2, "CONVERT"),
    ("inet", pa.array(["10.0.0.1", "no address", "10.0.0.2"]), 1, "NOT_PARSED"),
    ("jsonb", pa.array(["{}", "[]", "{"]), 2, "NOT_PARSED"),
    ("bigint CHECK (v < 5)", pa.array([9, 1, 2]), 0, "CONSTRAINT"),
    ("bigint UNIQUE", pa.array([1, 2, 1]), 2, "DUPLICATE"),
    ("bigint UNIQUE DEFERRABLE INITIALLY DEFERRED", pa.array([1, 2, 1]), 2, "DUPLICATE"),
    ("integer[]", pa.array([[[1, 2]], [[1], [2, 3]], [[4, 5]]], pa.list_(pa.list_(pa.int32()))), 1, "NOT_PARSED"),
    ("varchar(3)", pa.array([1, 12345, 2]), 1, "TOO_LONG"),
    ("char(3)", pa.array(["a", "long", "b"]), 1, "TOO_LONG"),
    ("bit(3)", pa.array(["101", "1011", "111"]), 1, "INSERT"),
    ("varchar(3)[]", pa.array([["a"], ["long"], ["b"]]), 1, "TOO_LONG"),
    ("numeric(4,2)", pa.array(["1", "123.4", "2"]), 1, "OUT_OF_RANGE"),
    ("text UNIQUE", pa.array(["a", TOO_LONG_FOR_AN_INDEX, "b"]), 1, "INSERT"),
]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case[0]}-{case[1].type}")
def test_exactly_the_bad_row_is_rejected_with_its_column(
    destination: DestinationFixture,
    connection: Connection,
    schema: str,
    load: str,
    case: tuple[str, pa.Array, int, str],
) -> None:
    kind, values, bad, code = case
    connection.execute(f"CREATE TABLE {schema}.t (n bigint, v {kind})".encode())
    stream = destination.stream()
    run, source = destination.start(stream)
    rows = pa.record_batch({"n": pa.array(range(3)), "v": values})
    emit(source, [rows])
    made = destination.open(run, load=load)
    made.prepare(stream, [], 1)
    assert made.run_write(stream).records_written == 2
    made.close()
    assert [n for (n,) in destination.rows(columns="n")] == [n for n in range(3) if n != bad]
    letters = run.observer.letters  # type: ignore[attr-defined]
    assert len(letters) == 1
    _, refused, error = letters[0]
    assert refused == rows.slice(bad, 1)
    assert (error.category, error.scope) == (ErrorCategory.DATA, ErrorScope.RECORD)
    assert error.code == code
    assert error.details["column"] in ("v", "") and error.details["reason"]


@pytest.mark.parametrize("mode", [FULL, INCREMENTAL])
def test_all_bad_rows_of_a_batch_are_rejected(
    destination: DestinationFixture, connection: Connection, schema: str, mode: Any
) -> None:
    connection.execute(f"CREATE TABLE {schema}.t (a bigint, b varchar(3))".encode())
    texts = ["bad text" if number % 37 == 5 else "ok" for number in range(1_000)]
    done = destination.write(
        [batch(a=list(range(500)), b=texts[:500]), batch(a=list(range(500, 1_000)), b=texts[500:])],
        destination.stream(mode),
    )
    bad = [number for number in range(1_000) if number % 37 == 5]
    assert [letter[1].column("a")[0].as_py() for letter in done.seen.letters] == bad
    assert [a for (a,) in destination.rows(columns="a")] == [n for n in range(1_000) if n not in bad]
    assert done.summary.records_written == 1_000 - len(bad)


def test_bad_row_with_the_fail_policy_fails_the_run_and_nothing_is_written(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    connection.execute(f"CREATE TABLE {schema}.t (a bigint CHECK (a < 5))".encode())
    with pytest.raises(ConnectorError) as caught:
        destination.write([batch(a=[1, 7])], destination.stream(policy=DataErrorPolicy.FAIL))
    assert caught.value.category is ErrorCategory.DATA and destination.rows() == []
    done = destination.write([batch(a=[1, 7])], destination.stream(policy=DataErrorPolicy.SKIP), generation=2)
    assert destination.rows() == [(1,)] and "1 rows skipped" in done.seen.lines[-1][2]


@pytest.mark.parametrize("mode", [FULL, INCREMENTAL])
def test_rows_without_a_key_are_rejected(destination: DestinationFixture, mode: Any) -> None:
    done = destination.write([batch(a=[1, None, 3], b=["x", "y", "z"])], destination.stream(mode, Upsert(["a"])))
    assert destination.rows() == [(1, "x"), (3, "z")]
    assert [(letter[2].code, letter[1].to_pylist()) for letter in done.seen.letters] == [
        ("NULL", [{"a": None, "b": "y"}])
    ]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("numeric(4,2)", pa.array(["1.001", "1.004", "2"])),
        ("timestamp(0)", pa.array([100_000, 200_000, 1_000_000], pa.timestamp("us"))),
    ],
    ids=["numeric", "timestamp"],
)
def test_last_row_wins_if_the_table_rounds_keys_to_one(
    destination: DestinationFixture, connection: Connection, kind: str, keys: pa.Array, load: str
) -> None:
    connection.execute(f"CREATE TABLE {destination.schema}.t (a {kind} PRIMARY KEY, b text)".encode())
    stream = destination.stream(INCREMENTAL, Upsert(["a"]))
    run, source = destination.start(stream)
    emit(source, [pa.record_batch({"a": keys, "b": pa.array(["x", "y", "z"])})])
    made = destination.open(run, load=load)
    made.prepare(stream, [], 1)
    made.run_write(stream)
    made.close()
    assert [b for (b,) in destination.rows(columns="b")] == ["y", "z"]


HOSTILE = [
    *('a"b.c d', "ünïcode ☃", "'; DROP TABLE t; --", 'x"); DROP TABLE t; /*', "%s %(a)s % {0} $1", "SELECT"),
    *("a\n\t\\b\x7f", "ä" * 31, "x" * 63, "_gauss"),
]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("write", [Append(), Replace(), Upsert(["k"])], ids=lambda mode: mode.TAG)
def test_hostile_names_of_schemas_tables_and_columns_are_quoted(
    postgres: Endpoint, connection: Connection, schema: str, load: str, write: WriteMode
) -> None:
    for place, name in enumerate(HOSTILE):
        own = f"{schema[:5]}{name}".encode()[:63].decode(errors="ignore")
        destination = DestinationFixture(postgres, own, load=load)
        mode = FULL if isinstance(write, Replace) or place % 2 else INCREMENTAL
        key = HOSTILE[place - 1]
        write_mode = Upsert([key]) if isinstance(write, Upsert) else write
        stream = destination.stream(mode, write_mode, str(StreamName(own, name)))
        rows = pa.record_batch({key: pa.array([1, 2]), name: pa.array(["a", "b"])})
        try:
            for generation in (1, 2):
                destination.write([rows], stream, generation=generation)
            names = f"{identifier(key)}, {identifier(name)}"
            found = connection.execute(f"SELECT {names} FROM {qualified(name, own)} ORDER BY 1".encode()).fetchall()
            once = [(1, "a"), (2, "b")]
            assert found == (sorted(once * 2) if isinstance(write, Append) else once)
        finally:
            connection.execute(f"DROP SCHEMA IF EXISTS {identifier(own)} CASCADE".encode())


@pytest.mark.parametrize("name", ["", "x" * 64, "ä" * 32, "a\0b"])
def test_names_that_postgres_cannot_store_are_config_errors(destination: DestinationFixture, name: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        destination.write([pa.record_batch({name: pa.array([1])})])
    assert caught.value.category is ErrorCategory.CONFIG
    with pytest.raises(ConnectorError) as caught:
        destination.write([batch(a=[1])], destination.stream(name=f'public."{name}"'))
    assert caught.value.category is ErrorCategory.CONFIG


def test_stream_can_be_written_to_another_table_but_not_to_an_internal_one(destination: DestinationFixture) -> None:
    destination.write([batch(a=[1])], tables={"public.t": "elsewhere"})
    assert destination.rows("elsewhere") == [(1,)]
    with pytest.raises(ConnectorError, match="the connector's own"):
        destination.write([batch(a=[1])], destination.stream(name="_gauss_watermarks"))
    with pytest.raises(ConnectorError, match="the connector's own"):
        destination.write([batch(a=[1])], tables={"public.t": "_gauss_fences"})


def copied(connection: Connection, query: str) -> tuple[bytes, int]:
    """Rows in the binary form of COPY, without header and trailer, and how many."""
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT BINARY)".encode()) as copy:
        whole = b"".join(bytes(part) for part in copy)
    payload = whole[19:-2]
    return payload, len(list(split_rows(payload))) - 1


@pytest.mark.parametrize("write", [Append(), Replace(), Upsert(["a"])], ids=lambda mode: mode.TAG)
def test_binary_copy_rows_are_written_unchanged(
    destination: DestinationFixture, connection: Connection, schema: str, write: WriteMode
) -> None:
    connection.execute(f"CREATE TABLE {schema}.t (a bigint PRIMARY KEY, n numeric, b varchar(9))".encode())
    wanted = pa.schema([("b", pa.string()), ("a", pa.int64()), ("n", pa.string())])
    for generation, mode in enumerate((FULL, FULL if isinstance(write, Replace) else INCREMENTAL), start=1):
        stream = destination.stream(mode, write)
        run, _ = destination.start(stream)
        made = destination.open(run)
        kind = made.opaque_kind(stream, wanted)
        assert kind == 'pgcopy:[["b","character varying(9)"],["a","bigint"],["n","numeric"]]'
        assert made.opaque_kind(stream, pa.schema([("other", pa.string())])) == ""
        made.close()
        start = generation * 10 if isinstance(write, Append) else generation
        query = f"SELECT 'x' || i, i::bigint, 'NaN'::numeric FROM generate_series({start}, {start + 2}) AS g (i)"
        rows, count = copied(connection, query)
        opaque = Opaque(kind, rows, count)
        done = destination.write([opaque], stream, generation=generation, opaque=kind, schema=wanted)
        assert done.summary.records_written == 3
    ids = [a for (a,) in destination.rows(columns="a")]
    assert ids == {"append": [10, 11, 12, 20, 21, 22], "replace": [2, 3, 4], "upsert": [1, 2, 3, 4]}[write.TAG]


def test_refused_binary_copy_row_is_rejected_as_text(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    connection.execute(f"CREATE TABLE {schema}.t (a bigint CHECK (a % 4 <> 2), b date)".encode())
    kind = 'pgcopy:[["a","bigint"],["b","date"]]'
    rows, count = copied(connection, "SELECT i::bigint, '2024-01-01'::date + i FROM generate_series(1, 9) AS g (i)")
    schema_of = pa.schema([("a", pa.int64()), ("b", pa.date32())])
    done = destination.write([Opaque(kind, rows, count)], opaque=kind, schema=schema_of)
    assert [a for (a,) in destination.rows(columns="a")] == [1, 3, 4, 5, 7, 8, 9]
    assert [(letter[1].to_pylist(), letter[2].code) for letter in done.seen.letters] == [
        ([{"a": "2", "b": "2024-01-03"}], "CONSTRAINT"),
        ([{"a": "6", "b": "2024-01-07"}], "CONSTRAINT"),
    ]
    assert done.summary.records_written == 7


def test_table_with_user_defined_types_accepts_no_binary_copy_rows(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    stream = destination.stream()
    run, _ = destination.start(stream)
    made = destination.open(run)
    assert made.opaque_kind(stream, pa.schema([("a", pa.string())])) == ""  # no table yet
    connection.execute(
        f"CREATE TYPE {schema}.mood AS ENUM ('ok'); CREATE TABLE {schema}.t (a {schema}.mood, b bigint)".encode()
    )
    assert made.opaque_kind(stream, pa.schema([("a", pa.string())])) == ""
    assert made.opaque_kind(stream, pa.schema([("b", pa.int64())])) != ""
    made.close()
    text = destination.open(run, load="copy")
    assert text.opaque_kind(stream, pa.schema([("b", pa.int64())])) == ""
    text.close()


def test_upsert_by_a_nullable_key_accepts_no_binary_copy_rows(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    """A row without a key would be added again by every run: such rows are rejected as Arrow."""
    connection.execute(f"CREATE TABLE {schema}.t (a bigint UNIQUE, b bigint)".encode())
    wanted = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    kinds = []
    for write in (Append(), Upsert(["a"])):
        stream = destination.stream(INCREMENTAL, write)
        made = destination.open(destination.start(stream)[0])
        kinds.append(made.opaque_kind(stream, wanted))
        connection.execute(f"ALTER TABLE {schema}.t ALTER COLUMN a SET NOT NULL".encode())
        assert made.opaque_kind(stream, wanted) != ""
        connection.execute(f"ALTER TABLE {schema}.t ALTER COLUMN a DROP NOT NULL".encode())
        made.close()
    assert kinds[0] != "" and kinds[1] == ""


def test_user_defined_types_are_written_as_text(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    connection.execute(
        f"CREATE TYPE {schema}.\"My Mood\" AS ENUM ('ok', 'bad');"
        f"CREATE DOMAIN {schema}.small AS int CHECK (value < 9);"
        f'CREATE TABLE {schema}.t (a {schema}."My Mood", b {schema}.small)'.encode()
    )
    for load in LOADS:
        done = destination.write([batch(a=["ok", "no"], b=[1, 1]), batch(a=["bad"], b=[9])], load=load, generation=1)
        assert len(done.seen.letters) == 2
    assert destination.rows() == [("ok", 1)] * 3


@given(st.lists(st.lists(st.none() | st.binary(max_size=9), min_size=1, max_size=4), max_size=9))
def test_binary_copy_is_split_into_its_rows(rows: list[list[bytes | None]]) -> None:
    made = []
    for row in rows:
        fields = [
            (-1).to_bytes(4, "big", signed=True) if each is None else len(each).to_bytes(4, "big") + each
            for each in row
        ]
        made.append(len(row).to_bytes(2, "big") + b"".join(fields))
    payload, places = b"".join(made), list(split_rows(b"".join(made)))
    assert [payload[start:stop] for start, stop in pairwise(places)] == made
