"""Incremental reads: with any cursor type and any end of a run, each row is read exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.connector.cursor import (
    CursorValue,
    DecimalCursor,
    Int64Cursor,
    JsonCursor,
    NullCursor,
    TimestampMicrosCursor,
    TimestampMillisCursor,
    Utf8Cursor,
)
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.host import Batch, Mark
from gauss.plugins.connectors.postgres.catalog import Column
from gauss.plugins.connectors.postgres.catalog_types import Reading
from gauss.plugins.connectors.postgres.source_position import CursorOrder, Position

Sql = Callable[[str], list[Any]]
EAGER = {"checkpoint": {"rows": 1}}
OFTEN = {"checkpoint": {"rows": 4_000}}
VALUES: dict[str, tuple[list[str], str, CursorValue]] = {
    "int4": (["-5", "3", "7"], "8", Int64Cursor(8)),
    "text": (["'Z'", "'a'", "'b''\"\\'"], "'é'", Utf8Cursor("é")),
    "timestamp": (["'0044-03-15 BC'", "'1999-12-31 23:59:59.999999'", "'2020-01-01'"], "'20000-01-01'",
                  TimestampMicrosCursor(568_971_820_800_000_000)),
    "timestamptz": (["'1969-12-31 23:59:59.999999Z'", "'1970-01-01Z'", "'2020-01-01 12:00+02'"], "'2021-01-01Z'",
                    TimestampMicrosCursor(1_609_459_200_000_000)),
    "date": (["'0044-03-15 BC'", "'1970-01-01'", "'2020-02-29'"], "'2021-01-01'",
             TimestampMillisCursor(1_609_459_200_000)),
    "numeric(20,3)": (["-1.5", "0", "2.250"], "2.251", DecimalCursor("2.251", 3)),
    "numeric(9,2)": (["-1.5", "0", "2.25"], "10", DecimalCursor("10.00", 2)),
    "numeric": (["-1.5", "0.10", "99999999999999999999999999999999999999999.5"], "1e42",
                DecimalCursor("1000000000000000000000000000000000000000000", 0)),
    "uuid": (["'00000000-0000-0000-0000-000000000000'", "'0fffffff-0000-0000-0000-000000000000'",
              "'10000000-0000-0000-0000-000000000000'"], "'ffffffff-0000-0000-0000-000000000000'",
             Utf8Cursor("ffffffff-0000-0000-0000-000000000000")),
}  # fmt: skip


def ids(found: Any) -> list[int]:
    return [number for batch in found.batches for number in batch["id"].to_pylist()]


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("kind", VALUES)
def test_next_run_reads_rows_after_the_cursor(source: Any, schema: str, run_sql: Sql, kind: str, keyed: bool) -> None:
    values, later, expected = VALUES[kind]
    run_sql(f"CREATE TABLE t (id int {'PRIMARY KEY' if keyed else ''}, c {kind})")
    run_sql(f"INSERT INTO t VALUES {', '.join(f'({number}, {value})' for number, value in enumerate(values))}")
    first = source.read(f"{schema}.t", "c")
    assert ids(first) == [0, 1, 2]
    again = source.read(f"{schema}.t", "c", first.cursor)
    assert ids(again) == [] and again.cursor == first.cursor
    run_sql(f"INSERT INTO t VALUES (3, {later})")
    second = source.read(f"{schema}.t", "c", again.cursor)
    assert ids(second) == [3]
    if keyed:
        assert isinstance(second.cursor, JsonCursor) and second.cursor.value["key"] == {"id": "3"}
    else:
        assert second.cursor == expected
        # What a user sets, or an earlier version stored, is understood by a table with a key as well.
        run_sql("ALTER TABLE t ADD PRIMARY KEY (id)")
        assert ids(source.read(f"{schema}.t", "c", expected)) == []


def resumed_everywhere(source: Any, stream: str, cursor: str, *, marks: int, **limits: int) -> None:
    """A run that is resumed from any of its marks reads exactly what followed it."""
    whole = source.read(stream, cursor, config=OFTEN, **limits)
    everything, emitted = sorted(ids(whole)), 0
    assert len(set(everything)) == len(everything)
    for item in whole.items:
        if isinstance(item, Batch):
            emitted += item.rows.num_rows  # type: ignore[union-attr]
        else:
            rest = source.read(stream, cursor, item.cursor, config=OFTEN, **limits)
            assert sorted(ids(whole)[:emitted] + ids(rest)) == everything
    assert len(whole.marks) >= marks and len(whole.batches) >= marks


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "PRIMARY KEY (name, id)", "UNIQUE (id)"])
def test_run_can_be_resumed_at_every_mark(source: Any, schema: str, run_sql: Sql, key: str) -> None:
    run_sql(f"CREATE TABLE t (id int, name text, at timestamptz, {key})")
    at = "'epoch'::timestamptz + (i / 900) * interval '1 day'"
    run_sql(f"INSERT INTO t SELECT i, md5(i::text), CASE WHEN i % 7 > 0 THEN {at} END FROM generate_series(1, 13000) i")
    resumed_everywhere(source, f"{schema}.t", "at", marks=4, max_batch_bytes=200_000)


@pytest.mark.parametrize("values", [("numeric", "1.0", "1.00", "2"), ("bpchar", "a", "a  ", "b")])
def test_rows_with_equal_cursors_and_no_key_are_never_split(
    source: Any, schema: str, run_sql: Sql, values: tuple[str, ...]
) -> None:
    kind, one, same, later = values
    run_sql(f"CREATE TABLE t (id int, c {kind})")
    # Postgres takes 1.0 and 1.00 for equal: so must the source.
    run_sql(f"INSERT INTO t SELECT i, (ARRAY['{one}', '{same}']::{kind}[])[1 + i % 2] FROM generate_series(1, 9000) i")
    run_sql(f"INSERT INTO t VALUES (9001, '{later}'), (9002, '{later}')")
    resumed_everywhere(source, f"{schema}.t", "c", marks=2, max_batch_bytes=20_000)


def test_rows_with_a_null_cursor_are_read_once_and_first(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int, c int); INSERT INTO t VALUES (1, 5), (2, NULL), (3, NULL)")
    first = source.read(f"{schema}.t", "c", config=EAGER)
    assert ids(first) == [2, 3, 1]
    assert [mark.cursor for mark in first.marks] == [NullCursor(), Int64Cursor(5)]
    assert ids(source.read(f"{schema}.t", "c", NullCursor())) == [1]
    run_sql("INSERT INTO t VALUES (4, NULL), (5, 6)")
    assert ids(source.read(f"{schema}.t", "c", first.cursor)) == [5]


def test_run_after_an_empty_first_run_reads_all_rows(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int, c int)")
    found = source.read(f"{schema}.t", "c")
    assert found.items == [Mark(0, None, final=False)]
    run_sql("INSERT INTO t VALUES (1, NULL)")
    assert ids(source.read(f"{schema}.t", "c", found.cursor)) == [1]


def test_primary_key_as_cursor_needs_no_tie_breaker(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id bigint PRIMARY KEY); INSERT INTO t VALUES (9223372036854775807), (1)")
    found = source.read(f"{schema}.t", "id")
    assert ids(found) == [1, 2**63 - 1] and found.cursor == Int64Cursor(2**63 - 1)


def test_collation_in_which_different_texts_are_equal_is_not_used() -> None:
    plain = Column("c", "text", "text", "text", True, True, Reading("text", pa.string()))
    blind = replace(plain, deterministic=False)
    key = replace(plain, name="id")
    nothing: Any = None
    assert CursorOrder("t", plain).behind(Position(), nothing).endswith('ORDER BY "c"')
    assert CursorOrder("t", blind).behind(Position(), nothing).endswith('ORDER BY "c" COLLATE "C"')
    # With a key the collation's own order is right, and its index can be used.
    assert CursorOrder("t", blind, (key,)).behind(Position(), nothing).endswith('ORDER BY "c", "id"')


def test_bad_value_is_rejected_once_and_the_cursor_moves_past_it(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, c int, d date)")
    run_sql("INSERT INTO t VALUES (1, 1, NULL), (2, 2, 'infinity')")
    found = source.read(f"{schema}.t", "c")
    assert ids(found) == [1] and len(found.seen.letters) == 1
    assert source.read(f"{schema}.t", "c", found.cursor).seen.letters == []


@pytest.mark.parametrize("lane", ["arrow", "opaque"])
@pytest.mark.parametrize("value", [("timestamptz", "infinity"), ("date", "-infinity"), ("numeric(9,2)", "NaN")])
def test_row_whose_cursor_has_no_position_is_rejected_and_never_read_twice(
    source: Any, schema: str, run_sql: Sql, value: tuple[str, str], lane: str
) -> None:
    kind, endless = value
    low, high = ("1", "2") if kind.startswith("numeric") else ("2020-01-01", "2021-01-01")
    run_sql(f"CREATE TABLE t (id int PRIMARY KEY, c {kind})")
    run_sql(f"INSERT INTO t VALUES (1, '{low}'), (2, '{endless}')")
    stream = source.stream(f"{schema}.t", "c")
    opaque = source.make(source.start(stream)).opaque_kind(stream) if lane == "opaque" else ""
    assert bool(opaque) == (lane == "opaque")
    first = source.read(stream, opaque=opaque)
    run_sql(f"INSERT INTO t VALUES (3, '{high}')")
    second = source.read(source.stream(f"{schema}.t", "c", first.cursor), opaque=opaque)
    assert [first.summary.records_read, second.summary.records_read] == [1, 1]
    (letter,) = first.seen.letters
    assert letter[2].category is ErrorCategory.DATA and endless in letter[2].message


@pytest.mark.parametrize(
    "case",
    [
        ("timestamptz", "infinity", "2020-01-01"),
        ("timestamp", "294276-12-31 12:30:00.5", "294276-12-31 12:30:00.500001"),
        ("date", "-infinity", "2020-01-01"),
        ("time", "24:00", "23:59"),
        ("numeric(9,2)", "NaN", "1"),
    ],
)
def test_row_whose_key_has_no_arrow_value_has_a_position_in_opaque_reads(
    source: Any, schema: str, run_sql: Sql, case: tuple[str, str, str]
) -> None:
    kind, key, later = case
    run_sql(f"CREATE TABLE t (c int, id {kind}, n int, PRIMARY KEY (id, n))")
    run_sql(f"INSERT INTO t VALUES (1, '{later}', 1), (1, '{key}', 2), (1, '{key}', 3), (1, '{later}', 4)")
    stream = source.stream(f"{schema}.t", "c")
    opaque = source.make(source.start(stream)).opaque_kind(stream)
    for rows in (4, 0, 1, 0):
        found = source.read(stream, opaque=opaque)
        assert (found.summary.records_read, found.seen.letters) == (rows, [])
        stream = source.stream(f"{schema}.t", "c", found.cursor)
        if rows == 0:
            run_sql(f"INSERT INTO t VALUES (2, '{key}', 5) ON CONFLICT DO NOTHING")


@pytest.mark.parametrize(
    "last",
    [
        Utf8Cursor("x"),
        TimestampMicrosCursor(1),
        JsonCursor({"field": "d", "type": "integer", "cursor": "1", "key": None}),
        JsonCursor({"field": "c", "type": "text", "cursor": "1", "key": None}),
        JsonCursor({"field": "c", "type": "integer", "cursor": "1", "key": {"other": "1"}}),
        JsonCursor(["nonsense"]),
    ],
)
def test_cursor_of_another_column_is_refused(source: Any, schema: str, run_sql: Sql, last: CursorValue) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, c int)")
    with pytest.raises(ConnectorError) as caught:
        source.read(f"{schema}.t", "c", last)
    assert (caught.value.category, caught.value.code) == (ErrorCategory.SCHEMA, "CURSOR_CHANGED")


@pytest.mark.parametrize("column", ["f", "missing"])
def test_column_that_cannot_be_a_cursor_is_refused(source: Any, schema: str, run_sql: Sql, column: str) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, f float8)")
    with pytest.raises(ConnectorError) as caught:
        source.read(f"{schema}.t", column)
    assert caught.value.category is ErrorCategory.CONFIG and f'"{column}"' in caught.value.message


def test_checkpoints_are_made_by_rows_bytes_and_seconds(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql(
        "CREATE TABLE t AS SELECT i AS id, i AS c FROM generate_series(1, 20000) i; ALTER TABLE t ADD PRIMARY KEY (id)"
    )
    few = source.read(f"{schema}.t", "c", max_batch_bytes=100_000)
    assert len(few.marks) == 1 and few.marks[0].id == len(few.batches)
    for limit in ({"rows": 5_000}, {"bytes": 100_000}, {"secs": 1e-9}):
        many = source.read(f"{schema}.t", "c", config={"checkpoint": limit}, max_batch_bytes=100_000)
        assert 3 <= len(many.marks) <= len(many.batches) + 1
        assert [mark.id for mark in many.marks] == sorted(mark.id for mark in many.marks)
