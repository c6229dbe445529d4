"""Every write mode on a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.contracts.connector.connector import ManagedDestination, Watermark
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig, ValidationStatus
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind
from gauss.contracts.connector.stream import Append, Replace, Upsert, WriteMode
from helpers.destinations import FULL, INCREMENTAL, batch, emit
from helpers.postgres_destination import DestinationFixture

LOADS = ["copy_binary", "copy", "insert"]


@pytest.fixture
def destination(postgres: Endpoint, schema: str) -> Iterator[DestinationFixture]:
    made = DestinationFixture(postgres, schema)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "table"),
    [('a."b.c"', "b.c"), ('say "hi"', 'say "hi"'), ("2026.01.02", "02"), ("x" * 63, "x" * 63)],
)
def test_any_name_that_postgres_can_have_becomes_a_table(
    destination: DestinationFixture, name: str, table: str
) -> None:
    destination.write([batch(a=[1])], destination.stream(name=name))
    assert destination.rows(table.replace('"', '""')) == [(1,)]


@pytest.mark.parametrize("name", ["x" * 64, "a\0b", "schema."])
def test_a_name_that_postgres_cannot_have_is_refused(destination: DestinationFixture, name: str) -> None:
    with pytest.raises(ConnectorError, match="1 to 63 bytes and no NUL") as caught:
        destination.write([batch(a=[1])], destination.stream(name=name))
    assert caught.value.category is ErrorCategory.CONFIG


@pytest.mark.parametrize("mode", [FULL, INCREMENTAL])
@pytest.mark.parametrize("load", LOADS)
def test_append_adds_rows_in_every_run(destination: DestinationFixture, load: str, mode: Any) -> None:
    stream = destination.stream(mode)
    done = destination.write([batch(a=[1, 2], b=["x", None]), batch(a=[3], b=["z"])], stream, load=load)
    assert (done.summary.records_written, done.summary.batches_written) == (3, 2)
    assert done.seen.safe[-1].cursor_value == Int64Cursor(2)
    destination.write([batch(a=[4], b=["w"])], stream, generation=2, load=load)
    assert destination.rows() == [(1, "x"), (2, None), (3, "z"), (4, "w")]


@pytest.mark.parametrize("mode", [FULL, INCREMENTAL])
@pytest.mark.parametrize("load", LOADS)
def test_upsert_replaces_by_key_and_the_last_row_wins(destination: DestinationFixture, load: str, mode: Any) -> None:
    stream = destination.stream(mode, Upsert(["a", "k"]))
    first = [batch(a=[1, 2, 1], k=["x", "x", "x"], b=["old", "two", "new"]), batch(a=[1], k=["y"], b=["other"])]
    destination.write(first, stream, load=load)
    assert destination.rows(order="1, 2") == [(1, "x", "new"), (1, "y", "other"), (2, "x", "two")]
    destination.write([batch(a=[2, 3], k=["x", "x"], b=["changed", "three"])], stream, generation=2, load=load)
    expected = [(1, "x", "new"), (1, "y", "other"), (2, "x", "changed"), (3, "x", "three")]
    assert destination.rows(order="1, 2") == expected


@pytest.mark.parametrize("load", LOADS)
def test_upsert_of_keys_alone_keeps_existing_rows(destination: DestinationFixture, load: str) -> None:
    for generation in (1, 2):
        stream = destination.stream(INCREMENTAL, Upsert(["a"]))
        destination.write([batch(a=[1, 1, 2])], stream, generation=generation, load=load)
    assert destination.rows() == [(1,), (2,)]


@pytest.mark.parametrize("load", LOADS)
def test_replace_leaves_only_the_new_rows(destination: DestinationFixture, load: str) -> None:
    stream = destination.stream(FULL, Replace())
    destination.write([batch(a=[1, 2])], stream, load=load)
    destination.write([batch(a=[7]), batch(a=[8])], stream, generation=2, load=load)
    assert destination.rows() == [(7,), (8,)]


def test_replace_without_rows_empties_the_table(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Replace())
    destination.write([batch(a=[1, 2])], stream)
    destination.write([], stream, generation=2, schema=batch(a=[1]).schema)
    assert destination.rows() == []


@pytest.mark.parametrize("write", [Append(), Replace(), Upsert(["a"])], ids=lambda mode: mode.TAG)
def test_full_refresh_is_invisible_until_it_is_finished(
    destination: DestinationFixture, connection: Connection, schema: str, write: WriteMode
) -> None:
    stream = destination.stream(FULL, write)
    destination.write([batch(a=[1])], stream)
    destination.write([batch(a=[2])], stream, generation=2, finish=False)
    assert destination.rows() == [(1,)]
    run, _ = destination.start(stream, 2)
    made = destination.open(run)
    for _ in range(2):  # a second finish changes nothing
        made.finish(stream, 2)
    made.close()
    assert destination.rows() == ([(2,)] if isinstance(write, Replace) else [(1,), (2,)])
    left = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE %s", ["%gauss_stage%"]).fetchall()
    assert left == [], schema


def test_partitions_of_a_full_refresh_become_visible_together(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Replace())
    for part in range(3):
        destination.write([batch(a=[part])], stream, partition={"part": part}, finish=part == 2)
        assert destination.rows() == ([(0,), (1,), (2,)] if part == 2 else [])


def test_second_attempt_at_a_partition_of_a_full_refresh_writes_nothing(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Append())
    slow_run, slow_source = destination.start(stream)
    slow = destination.open(slow_run)
    destination.prepare(slow, stream, batch(a=[1]).schema, 1)
    emit(slow_source, [batch(a=[1, 2])])
    real = slow_run.channel.get
    raced = False

    def get() -> Any:
        nonlocal raced
        if not raced:
            raced = True
            destination.write([batch(a=[1, 2])], stream, finish=False)
        return real()

    slow_run.channel.get = get  # type: ignore[method-assign]
    assert slow.run_write(stream).records_written == 0
    slow.finish(stream, 1)
    slow.close()
    with pytest.raises(ConnectorError, match="was replaced by run 1"):  # a number that was used up
        destination.write([batch(a=[1, 2])], stream)
    assert destination.rows() == [(1,), (2,)]


def test_watermark_is_the_last_committed_position(destination: DestinationFixture) -> None:
    stream = destination.stream()
    run, _ = destination.start(stream)
    made = destination.open(run)
    assert isinstance(made, ManagedDestination)
    assert made.watermark(stream, "") is None
    destination.write([batch(a=[1]), batch(a=[2])], stream, generation=4)
    assert made.watermark(stream, "") == Watermark(4, 2, Int64Cursor(2), True)
    assert made.watermark(stream, "other") is None
    destination.write([], stream, generation=5, schema=batch(a=[1]).schema)
    assert made.watermark(stream, "") == Watermark(5, 0, Int64Cursor(0), True)
    made.close()


def test_run_of_a_smaller_generation_is_refused(destination: DestinationFixture) -> None:
    stream = destination.stream()
    destination.write([batch(a=[1])], stream, generation=7)
    with pytest.raises(ConnectorError, match="replaced by run 7") as caught:
        destination.write([batch(a=[2])], stream, generation=6)
    assert (caught.value.code, caught.value.retryable) == ("FENCED", False)
    run, source = destination.start(stream, 6)
    made = destination.open(run)
    source.emit_batch(batch(a=[3]))
    with pytest.raises(ConnectorError) as caught:
        made.run_write(stream)
    made.close()
    assert caught.value.code == "FENCED" and destination.rows() == [(1,)]


@pytest.mark.parametrize("mode", [FULL, INCREMENTAL])
def test_new_run_ends_the_transaction_of_an_old_one(destination: DestinationFixture, mode: Any) -> None:
    stream = destination.stream(mode, Upsert(["a"]))
    destination.write([batch(a=[1], b=["x"])], stream)
    run, source = destination.start(stream, 2)
    zombie = destination.open(run)
    destination.prepare(zombie, stream, batch(a=[1], b=["x"]).schema, 2)
    source.emit_batch(batch(a=[1], b=["zombie"]))
    real = run.channel.get
    taken = 0

    def get() -> Any:
        nonlocal taken
        taken += 1
        if taken == 2:  # the row is written and locked, but not committed
            destination.write([batch(a=[1], b=["new"])], stream, generation=3)
        return real()

    run.channel.get = get  # type: ignore[method-assign]
    source.checkpoint(Checkpoint(1, CheckpointKind.SOURCE, stream.stream_name))
    source.end()
    with pytest.raises(ConnectorError):
        zombie.run_write(stream)
    zombie.close()
    assert destination.rows() == [(1, "new")]


def test_rows_after_the_last_checkpoint_are_not_written(destination: DestinationFixture) -> None:
    stream = destination.stream()
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema, 1)
    source.emit_batch(batch(a=[1]))
    source.end()
    with pytest.raises(ConnectorError) as caught:
        made.run_write(stream)
    assert caught.value.code == "NO_CHECKPOINT"
    made.close()
    run, source = destination.start(stream)
    made = destination.open(run)
    source.emit_batch(batch(a=[1]))
    run.drain()
    source.end()
    assert made.run_write(stream).records_written == 0
    made.close()
    assert destination.rows() == []


def test_full_refresh_of_a_source_without_checkpoints_is_written(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL)
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema, 1)
    source.emit_batch(batch(a=[1]))
    source.end()
    assert made.run_write(stream).records_written == 1
    made.finish(stream, 1)
    made.close()
    assert destination.rows() == [(1,)]


def test_unprepared_stream_is_refused(destination: DestinationFixture) -> None:
    run, source = destination.start(destination.stream())
    source.end()
    made = destination.open(run)
    with pytest.raises(ConnectorError, match="not prepared"):
        made.run_write(run.stream)
    made.close()


def test_upsert_into_a_table_without_a_key_is_a_schema_error(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    connection.execute(f"CREATE TABLE {schema}.t (a bigint, b text, PRIMARY KEY (a, b))".encode())
    stream = destination.stream(INCREMENTAL, Upsert(["a"]))
    with pytest.raises(ConnectorError, match=r"unique index on \(a\), found a, b") as caught:
        destination.write([batch(a=[1], b=["x"])], stream)
    assert caught.value.category is ErrorCategory.SCHEMA and "CREATE UNIQUE INDEX" in caught.value.hint
    connection.execute(f"CREATE UNIQUE INDEX ON {schema}.t (a)".encode())
    destination.write([batch(a=[1], b=["x"])], stream)
    assert destination.rows() == [(1, "x")]


def test_columns_that_the_stream_lacks_are_unchanged(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    connection.execute(
        f"CREATE TABLE {schema}.t (a bigint PRIMARY KEY, b text, n bigint GENERATED ALWAYS AS IDENTITY,"
        " d text DEFAULT 'd', g bigint GENERATED ALWAYS AS (a * 2) STORED)".encode()
    )
    connection.execute(f"INSERT INTO {schema}.t (a, b, d) VALUES (1, 'x', 'mine')".encode())
    for generation, mode in ((1, FULL), (2, INCREMENTAL)):
        stream = destination.stream(mode, Upsert(["a"]))
        destination.write([batch(a=[1, 10 + generation], b=["y", "z"])], stream, generation=generation)
    # A conflict costs a number of the identity, too.
    assert destination.rows(columns="a, b, d, g") == [(1, "y", "mine", 2), (11, "z", "d", 22), (12, "z", "d", 24)]


def test_table_is_altered_to_match_its_stream(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    connection.execute(f"CREATE TABLE {schema}.t (a bigint NOT NULL, old text)".encode())
    destination.write([batch(a=[None, 2], extra=["x", "y"])])
    assert destination.rows(order="3") == [(None, None, "x"), (2, None, "y")]


def test_statements_create_the_missing_schema_and_table(destination: DestinationFixture, schema: str) -> None:
    stream = destination.stream(FULL, Upsert(["a"]))
    run, _ = destination.start(stream)
    made = destination.open(run, schema=f"{schema} new")
    wanted = made.landed(pa.schema([pa.field("a", pa.int64(), False), pa.field("b", pa.string_view())]))
    found = made.statements(stream, None, wanted)
    made.close()
    assert found == [
        f'CREATE SCHEMA IF NOT EXISTS "{schema} new"',
        f'CREATE TABLE IF NOT EXISTS "{schema} new"."t" (\n    "a" BIGINT NOT NULL,\n    "b" TEXT,\n'
        '    PRIMARY KEY ("a")\n)',
    ]


def test_tables_are_logged_and_commits_are_synchronous(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    destination.write([batch(a=[1])], destination.stream(FULL, Replace()))
    kinds = connection.execute(
        "SELECT DISTINCT relpersistence::text FROM pg_class WHERE relnamespace = %s::regnamespace", [schema]
    ).fetchall()
    assert kinds == [("p",)]
    run, _ = destination.start(destination.stream())
    made = destination.open(run)
    assert made._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    made.close()


def test_validate_reports_a_schema_that_the_user_cannot_change(
    destination: DestinationFixture, connection: Connection, postgres: Endpoint, schema: str
) -> None:
    role = f"r_{schema}"
    connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pw'".encode())
    run, _ = destination.start(destination.stream())
    url = f"postgresql://{role}:pw@{postgres.host}:{postgres.port}/{postgres.database}"
    for dsn, status in ((postgres.url, ValidationStatus.SUCCESS), (url, ValidationStatus.WARNING)):
        made = destination.open(run, dsn=dsn)
        assert made.validate(JsonConfig({})).status is status
        made.close()
    with pytest.raises(ConnectorError) as caught:
        DestinationFixture(url, schema).write([batch(a=[1])])
    assert caught.value.category is ErrorCategory.PERMISSION and "GRANT" in caught.value.hint
    connection.execute(f"DROP ROLE {role}".encode())
