"""The host between a source and a destination that may break the protocol."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.cursor import CursorInfo, CursorType, CursorValue, Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Mark
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind
from gauss.contracts.connector.stream import DataErrorPolicy, StreamContext, StreamPolicies, SyncMode
from helpers.connectors import OneStream, rows

SOURCE, DEST = CheckpointKind.SOURCE, CheckpointKind.DEST
BAD = ConnectorError.data("BAD", "bad")


@pytest.mark.parametrize("given", [pa.table({"n": [1]}), {"n": [1]}, "n", None])
def test_what_is_no_batch_is_refused_by_its_type(given: Any) -> None:
    with pytest.raises(ConnectorError, match=f"takes a pyarrow.RecordBatch, found {type(given).__name__}"):
        OneStream().source.emit_batch(given)


def checkpoint(kind: CheckpointKind, id: int, cursor: int | None = None) -> Checkpoint:
    return Checkpoint(id, kind, "users", "n", None if cursor is None else Int64Cursor(cursor))


def cursors(both: OneStream) -> list[CursorValue | None]:
    return [each.cursor_value for each in both.seen.safe]


def test_cursor_does_not_pass_rejected_rows_before_their_dead_letters_are_stored() -> None:
    both = OneStream(policies=StreamPolicies(DataErrorPolicy.DLQ))
    source, destination = both.source, both.destination
    source.emit_batch(rows(1))
    source.checkpoint(checkpoint(SOURCE, 1, 1))
    destination.next_batch()
    destination.checkpoint(checkpoint(DEST, 1))
    source.reject(rows(2), BAD)
    source.checkpoint(checkpoint(SOURCE, 1, 2))
    assert cursors(both) == [Int64Cursor(1)] and source.committed == Int64Cursor(1) and not both.seen.letters
    source.end()
    assert destination.next_batch() is None
    assert cursors(both) == [Int64Cursor(1), Int64Cursor(2)] and len(both.seen.letters) == 1


def test_rejected_rows_are_durable_before_a_cursor_passes_them_but_not_one_by_one() -> None:
    both = OneStream(policies=StreamPolicies(DataErrorPolicy.DLQ))
    settled: list[int] = []
    both.seen.settle_rejected = lambda: settled.append(len(both.seen.letters))  # type: ignore[method-assign]
    source, destination = both.source, both.destination
    source.reject(rows(1), BAD)
    source.reject(rows(2), BAD)
    source.emit_batch(rows(3, 4))
    source.checkpoint(checkpoint(SOURCE, 1, 4))
    assert isinstance(destination.next_delivery(), Batch)
    destination.reject(rows(3), BAD)
    destination.reject(rows(4), BAD)
    assert not settled and not cursors(both)
    assert isinstance(destination.next_delivery(), Mark) and settled == [4]
    destination.reject(rows(5), BAD)  # while it commits
    assert settled == [4, 5]
    destination.checkpoint(checkpoint(DEST, 1))
    assert cursors(both) == [Int64Cursor(4)] and settled == [4, 5]


def test_a_destination_without_marks_has_durable_letters_at_its_checkpoint() -> None:
    both = OneStream(policies=StreamPolicies(DataErrorPolicy.DLQ))
    settled: list[int] = []
    both.seen.settle_rejected = lambda: settled.append(len(both.seen.letters))  # type: ignore[method-assign]
    both.source.emit_batch(rows(1))
    both.source.checkpoint(checkpoint(SOURCE, 1, 1))
    both.destination.next_batch()
    both.destination.reject(rows(1), BAD)
    assert not settled
    both.destination.checkpoint(checkpoint(DEST, 1))
    assert settled == [1] and cursors(both) == [Int64Cursor(1)]


def test_checkpoint_without_a_cursor_does_not_move_the_cursor() -> None:
    both = OneStream()
    info = CursorInfo("n", CursorType.INT64, Int64Cursor(41))
    stream = StreamContext("users", both.run.stream.schema, SyncMode.INCREMENTAL, info)
    run = StreamRun(stream, both.state, both.seen, pipeline="p")
    source, destination = StreamHost(run, SOURCE, "source"), StreamHost(run, DEST, "destination")
    marks = []
    for cursor in (None, 42, None):
        source.checkpoint(checkpoint(SOURCE, 0, cursor))
        marks.append(destination.next_delivery())
    source.end()
    marks.append(destination.next_delivery())
    assert [each.cursor for each in marks if isinstance(each, Mark)] == [Int64Cursor(n) for n in (41, 42, 42, 42)]
    assert cursors(both) == [Int64Cursor(n) for n in (41, 42, 42)]
