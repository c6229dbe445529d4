"""Rows of the tables after one run and after two, for each write mode and sync mode."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gauss.contracts.connector.connector import Destination, ManagedDestination, Watermark
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Mark
from gauss.contracts.connector.lifecycle import JsonConfig, ValidationStatus
from gauss.contracts.connector.stream import OPERATION, Append, Replace, Upsert
from helpers.destinations import CDC, FULL, INCREMENTAL, batch, emit
from plugins.connectors.clickhouse.writing import DestinationFixture


def test_incremental_stream_is_appended_and_two_runs_add_up(destination: DestinationFixture) -> None:
    first = destination.write([batch(a=[1, 2], b=["x", None]), batch(a=[3], b=["z"])])
    assert (first.summary.records_written, first.summary.batches_written) == (3, 2)
    assert [each.id for each in first.seen.safe][-1] == 2
    destination.write([batch(a=[1, 2], b=["x", None])], generation=2)
    assert destination.rows() == [(1, "x"), (1, "x"), (2, None), (2, None), (3, "z")]
    assert destination.stages() == []


def test_equal_rows_of_one_run_and_of_the_next_are_all_kept(destination: DestinationFixture) -> None:
    for generation in (1, 2, 3):
        destination.write([batch(a=[7, 7]), batch(a=[7, 7])], generation=generation)
    assert destination.rows() == [(7,)] * 12


def test_watermark_is_the_last_committed_position(destination: DestinationFixture) -> None:
    stream = destination.stream()
    run, _ = destination.start(stream)
    asked = destination.open(run)
    assert isinstance(asked, ManagedDestination) and asked.watermark(stream, "") is None
    destination.write([batch(a=[1]), batch(a=[2])], generation=5)
    assert asked.watermark(stream, "") == Watermark(5, 2, Int64Cursor(2), True)
    destination.prepare(asked, stream, batch(a=[1]).schema, 6)
    assert asked.watermark(stream, "") == Watermark(5, 2, Int64Cursor(2), True)
    assert asked.watermark(stream, "other") is None


def test_full_refresh_replaces_all_rows_at_its_end(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Replace())
    destination.write([batch(a=[1, 2]), batch(a=[3])], stream)
    assert destination.rows() == [(1,), (2,), (3,)]
    destination.write([batch(a=[8])], stream, generation=2, finish=False)
    assert destination.rows() == [(1,), (2,), (3,)]
    destination.write([batch(a=[9])], stream, generation=3)
    assert destination.rows() == [(9,)] and destination.stages() == []


def test_empty_full_refresh_empties_the_table(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Replace())
    destination.write([batch(a=[1])], stream)
    destination.write([], stream, schema=batch(a=[1]).schema, generation=2)
    assert destination.rows() == []


def test_appending_full_refresh_is_invisible_until_it_is_finished(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Append())
    destination.write([batch(a=[1]), batch(a=[2])], stream)
    destination.write([batch(a=[1])], stream, generation=2, finish=False)
    assert destination.rows() == [(1,), (2,)]
    destination.write([batch(a=[1])], stream, generation=3)
    assert destination.rows() == [(1,), (1,), (2,)] and destination.stages() == []


@pytest.mark.parametrize("write", [Replace(), Append()], ids=["replace", "append"])
def test_partitions_are_published_together_and_once(destination: DestinationFixture, write: Append | Replace) -> None:
    stream = destination.stream(FULL, write)
    schema = batch(a=[1]).schema
    destination.write([batch(a=[1])], stream, partition={"n": 1}, finish=False)
    # A partition that was written is not written again, by whichever attempt.
    again = destination.write([batch(a=[1])], stream, partition={"n": 1}, prepare=False, finish=False)
    assert again.summary.records_written == 0
    destination.write([batch(a=[2])], stream, partition={"n": 2}, schema=schema, prepare=False, finish=True)
    assert destination.rows() == [(1,), (2,)] and destination.stages() == []


def test_slower_of_two_attempts_at_a_partition_writes_nothing(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Replace())
    run, source = destination.start(stream, partition=1)
    slow = destination.open(run)
    destination.prepare(slow, stream, batch(a=[1]).schema)
    source.emit_batch(batch(a=[1]))
    next_delivery = slow._host.next_delivery

    def overtaken() -> Batch | Mark | None:
        """While the slow attempt waits for its second delivery, a fast one writes the whole partition."""
        if not run.channel._waiting and not run.channel._ended:
            destination.write([batch(a=[1])], stream, partition=1, prepare=False, finish=False)
            source.end()
        return next_delivery()

    slow._host.next_delivery = overtaken  # type: ignore[method-assign]
    slow.run_write(stream)
    slow.finish(stream, 1)
    slow.finish(stream, 1)
    assert destination.rows() == [(1,)] and destination.stages() == []


@pytest.mark.parametrize("mode", [INCREMENTAL, FULL], ids=["incremental", "full"])
def test_upserted_row_replaces_the_row_of_its_key(destination: DestinationFixture, mode: object) -> None:
    stream = destination.stream(mode, Upsert(["k", "a"]))  # type: ignore[arg-type]
    destination.write([batch(a=[1, 2], k=["x", "x"], v=[1, 1]), batch(a=[1], k=["x"], v=[2])], stream)
    destination.write([batch(a=[2, 2, 3], k=["x", "x", "x"], v=[7, 8, 9])], stream, generation=2)
    assert destination.rows(columns="a, v", final=True) == [(1, 2), (2, 8), (3, 9)]


def test_upserted_row_of_an_older_run_does_not_replace_a_newer_one(destination: DestinationFixture) -> None:
    stream = destination.stream(INCREMENTAL, Upsert(["a"]))
    run, source = destination.start(stream, 1)
    old = destination.open(run)
    destination.prepare(old, stream, batch(a=[1], v=[1]).schema, 1)
    destination.write([batch(a=[1], v=[2])], stream, generation=2)
    source.emit_batch(batch(a=[1], v=[1]))
    source.end()
    with pytest.raises(ConnectorError, match="replaced by run 2"):
        old.run_write(stream)
    assert destination.rows(columns="a, v", final=True) == [(1, 2)]


def changes(**columns: list[object]) -> pa.RecordBatch:
    return batch(**{OPERATION if name == "op" else name: values for name, values in columns.items()})


def test_changes_are_applied_in_order_by_upsert(destination: DestinationFixture) -> None:
    stream = destination.stream(CDC, Upsert(["a"]))
    first = changes(
        op=["insert", "insert", "insert", "update", "delete", "insert", "delete"],
        a=[1, 2, 3, 1, 2, 4, 4],
        v=["a", "b", "c", "A", None, "d", None],
    )
    destination.write([first], stream)
    assert destination.rows(columns="a, v", final=True) == [(1, "A"), (3, "c")]
    second = changes(op=["delete", "delete", "insert"], a=[1, 3, 3], v=[None, None, "new"])
    destination.write([second, changes(op=["insert"], a=[2], v=["back"])], stream, generation=2)
    assert destination.rows(columns="a, v", final=True) == [(2, "back"), (3, "new")]
    assert [name for name, *_ in destination.query(f"DESCRIBE TABLE {destination.database}.t")] == [
        *("a", "v", "_version", "_deleted")
    ]


def test_changes_are_stored_as_rows_by_append(destination: DestinationFixture) -> None:
    rows = changes(op=["insert", "delete"], a=[1, 1], v=["a", None])
    destination.write([rows], destination.stream(CDC, Append()))
    assert destination.rows(order="_op") == [("delete", 1, None), ("insert", 1, "a")]


def test_unknown_operation_and_a_missing_key_are_rejected(destination: DestinationFixture) -> None:
    rows = changes(op=["insert", "merge", None, "insert"], a=[1, 2, 3, None], v=["a", "b", "c", "d"])
    done = destination.write([rows], destination.stream(CDC, Upsert(["a"])))
    assert destination.rows(columns="a, v", final=True) == [(1, "a")]
    assert [(error.code, rejected.column("v")[0].as_py()) for _, rejected, error in done.seen.letters] == [
        ("NULL", "d"),
        ("BAD_OPERATION", "b"),
        ("BAD_OPERATION", "c"),
    ]


def test_rows_after_the_last_checkpoint_are_not_written(destination: DestinationFixture) -> None:
    stream = destination.stream()
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema)
    source.emit_batch(batch(a=[1]))
    source.end()
    with pytest.raises(ConnectorError, match="1 rows behind its last checkpoint"):
        made.run_write(stream)
    assert destination.rows() == []
    destination.write([batch(a=[2])], generation=2)
    assert destination.rows() == [(2,)] and destination.stages() == []


def test_run_without_rows_moves_the_watermark(destination: DestinationFixture) -> None:
    stream = destination.stream()
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema)
    emit(source, [], first=40)
    made.run_write(stream)
    assert made.watermark(stream, "") == Watermark(1, 0, Int64Cursor(40), True)


def test_older_run_is_refused_by_prepare_and_by_finish(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Replace())
    destination.write([batch(a=[1])], stream, generation=4)
    run, _ = destination.start(stream, 3)
    made = destination.open(run)
    with pytest.raises(ConnectorError, match=r"run 3 of stream public\.t was replaced by run 4"):
        made.prepare(stream, [], 3)
    with pytest.raises(ConnectorError, match="replaced by run 4"):
        made.finish(stream, 3)
    assert destination.rows() == [(1,)]


@pytest.mark.parametrize("write", [Replace(), Append()], ids=["replace", "append"])
def test_reused_generation_is_a_new_run(destination: DestinationFixture, write: Append | Replace) -> None:
    """The generations of a sync whose state was lost begin again."""
    stream = destination.stream(FULL, write)
    for number in (1, 2):
        destination.write([batch(a=[number])], stream)
    assert destination.rows() == ([(2,)] if isinstance(write, Replace) else [(1,), (2,)])


def test_unprepared_stream_is_refused(destination: DestinationFixture) -> None:
    destination.run_sql(f"CREATE DATABASE {destination.database}")
    stream = destination.stream()
    run, _ = destination.start(stream)
    made: Destination = destination.open(run)
    with pytest.raises(ConnectorError, match="was not prepared"):
        made.run_write(stream)
    destination.write([batch(a=[1])])
    with pytest.raises(ConnectorError, match="was not prepared"):
        destination.write([batch(a=[1])], generation=2, prepare=False)


def test_validate_accepts_the_embedded_server(destination: DestinationFixture) -> None:
    run, _ = destination.start(destination.stream())
    assert destination.open(run).validate(JsonConfig({})).status is ValidationStatus.SUCCESS


def test_stream_is_written_to_the_configured_table(destination: DestinationFixture) -> None:
    destination.write([batch(a=[1])], tables={"public.t": "other"})
    assert destination.rows("other") == [(1,)]


def test_internal_table_as_target_is_refused(destination: DestinationFixture) -> None:
    with pytest.raises(ConnectorError, match="the connector's own"):
        destination.write([batch(a=[1])], destination.stream(name="public._gauss_watermarks"))
    with pytest.raises(ConnectorError, match="names with _gauss_"):
        destination.write([batch(a=[1])], tables={"public.t": "_gauss_x"})
