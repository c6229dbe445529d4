"""Changes applied by key: the last one wins, and refused changes are rejected alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.clients.endpoint import Endpoint
from gauss.contracts.connector.cursor import CursorInfo, CursorType, JsonCursor
from gauss.contracts.connector.stream import OPERATION, Append, StreamContext, SyncMode, Upsert
from gauss.contracts.format import FieldType
from gauss.plugins.connectors.postgres.destination_changes import last_changes
from helpers.destinations import batch, emit
from helpers.postgres_destination import DestinationFixture

Sql = Callable[[str], list[Any]]
CHANGE = st.tuples(st.sampled_from(["insert", "update", "delete"]), st.integers(0, 5), st.text(max_size=2))


@pytest.fixture
def target(postgres: Endpoint, schema: str) -> Iterator[DestinationFixture]:
    made = DestinationFixture(postgres, schema)
    yield made
    made.close()


def changes(*rows: tuple[str, int | None, str | None]) -> pa.RecordBatch:
    operations, ids, values = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(ids, pa.int64()), pa.array(values, pa.string()), pa.array(operations)], names=["id", "v", OPERATION]
    )


def stream(target: DestinationFixture, *, upsert: bool = True, fresh: bool = False) -> StreamContext:
    made = target.stream(SyncMode.CDC, Upsert(["id"]) if upsert else Append())
    last = None if fresh else JsonCursor({"lsn": "0/1"})
    return StreamContext(
        *(made.stream_name, made.schema, made.sync_mode, CursorInfo("", CursorType.JSON, last)),
        *(made.limits, made.policies, made.write_mode),
    )


def prepared(target: DestinationFixture, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id bigint PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    target.prepare(target.open(target.start(stream(target))[0]), stream(target), pa.schema({"id": pa.int64()}))


def write(target: DestinationFixture, *batches: pa.RecordBatch, **more: Any) -> Any:
    """Applies batches to a table that has been prepared without the operation, as a host does."""
    context, generation = more.pop("stream", None) or stream(target), more.pop("generation", 1)
    run, source = target.start(context, generation)
    emit(source, batches)
    destination = target.open(run, **more)
    schema = batches[0].schema
    upserts = isinstance(context.write_mode, Upsert)
    wanted = schema.remove(schema.get_field_index(OPERATION)) if upserts else schema
    target.prepare(destination, context, wanted, generation)
    summary = destination.run_write(context)
    destination.close()
    return summary, run.observer


@given(st.lists(CHANGE, min_size=1, max_size=30))
def test_deletes_and_upserts_of_the_last_changes_equal_applying_all(rows: list[tuple[str, int, str]]) -> None:
    expected: dict[int, str] = {0: "old", 1: "old"}
    for operation, key, value in rows:
        expected.pop(key, None) if operation == "delete" else expected.update({key: value})
    found = last_changes(changes(*rows), ["id"], {"id": FieldType("BIGINT")})
    state: dict[int, str] = {0: "old", 1: "old"}
    for key in found.deleted["id"].to_pylist():
        state.pop(key, None)
    written = found.written.to_pylist()
    assert len({row["id"] for row in written}) == len(written)
    state.update({row["id"]: row["v"] for row in written})
    assert state == expected


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_changes_are_applied_in_order_within_and_across_batches(
    target: DestinationFixture, run_sql: Sql, load: str
) -> None:
    prepared(target, run_sql)
    first = changes(("update", 1, "x"), ("delete", 2, None), ("insert", 2, "again"), ("insert", 4, "d"))
    second = changes(("delete", 4, None), ("delete", 1, None), ("insert", 1, "y"), ("delete", 99, None))
    summary, _ = write(target, first, second, load=load)
    assert target.rows() == [(1, "y"), (2, "again"), (3, "c")]
    assert summary.records_written == 8


def test_changes_are_appended_with_their_operation(target: DestinationFixture) -> None:
    write(target, changes(("insert", 1, "a"), ("delete", 1, None)), stream=stream(target, upsert=False))
    assert target.rows(order="v") == [(1, "a", "insert"), (1, None, "delete")]


def test_delete_that_the_table_refuses_is_rejected_alone(target: DestinationFixture, run_sql: Sql) -> None:
    prepared(target, run_sql)
    run_sql("CREATE TABLE child (id bigint REFERENCES t); INSERT INTO child VALUES (2)")
    _, seen = write(target, changes(("delete", 1, None), ("delete", 2, None), ("insert", 5, "e"), ("delete", 3, None)))
    assert target.rows() == [(2, "b"), (5, "e")]
    ((_, rows, error),) = seen.letters
    assert rows.to_pylist() == [{"id": 2}] and error.code == "CONSTRAINT"
    run_sql("DROP TABLE child")


def test_change_without_a_key_is_rejected_alone(target: DestinationFixture, run_sql: Sql) -> None:
    prepared(target, run_sql)
    _, seen = write(target, changes(("delete", None, None), ("delete", 1, None)))
    assert [row[0] for row in target.rows()] == [2, 3] and len(seen.letters) == 1


def test_snapshot_of_a_reset_stream_replaces_all_rows(target: DestinationFixture, run_sql: Sql) -> None:
    prepared(target, run_sql)
    write(target, changes(("insert", 7, "g")))
    write(target, changes(("insert", 8, "h")), stream=stream(target, fresh=True), generation=2)
    assert target.rows() == [(8, "h")]


def test_first_snapshot_keeps_rows_that_others_have_written(target: DestinationFixture, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id bigint PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')")
    write(target, changes(("insert", 8, "h")), stream=stream(target, fresh=True))
    assert target.rows() == [(1, "a"), (8, "h")]


def test_rows_without_an_operation_are_upserted(target: DestinationFixture, run_sql: Sql) -> None:
    prepared(target, run_sql)
    upsert = target.stream(write=Upsert(["id"]))
    target.write([batch(id=[1], v=["z"])], upsert)
    assert target.rows()[0] == (1, "z")
