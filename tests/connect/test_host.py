"""What a host does between two connectors that need not be right."""

from __future__ import annotations

from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.cursor import CursorInfo, CursorType, CursorValue, Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Mark
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind
from gauss.contracts.connector.stream import DataErrorPolicy, StreamContext, StreamPolicies, SyncMode
from helpers.connectors import OneStream, rows

SOURCE, DEST = CheckpointKind.SOURCE, CheckpointKind.DEST
BAD = ConnectorError.data("BAD", "bad")


def checkpoint(kind: CheckpointKind, id: int, cursor: int | None = None) -> Checkpoint:
    return Checkpoint(id, kind, "users", "n", None if cursor is None else Int64Cursor(cursor))


def cursors(both: OneStream) -> list[CursorValue | None]:
    return [each.cursor_value for each in both.seen.safe]


def test_the_cursor_does_not_move_over_rows_that_are_not_yet_dead_letters() -> None:
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


def test_a_checkpoint_without_a_cursor_leaves_the_cursor_where_it_was() -> None:
    both = OneStream()
    info = CursorInfo("n", CursorType.INT64, Int64Cursor(41))
    stream = StreamContext("users", both.run.stream.schema, SyncMode.INCREMENTAL, info)
    run = StreamRun(stream, both.state, both.seen, pipeline="p")
    source, destination = StreamHost(run, SOURCE, "source"), StreamHost(run, DEST, "destination")
    source.checkpoint(checkpoint(SOURCE, 0))
    source.checkpoint(checkpoint(SOURCE, 0, 42))
    source.checkpoint(checkpoint(SOURCE, 0))
    source.end()
    marks = [destination.next_delivery() for _ in range(4)]
    assert [each.cursor for each in marks if isinstance(each, Mark)] == [Int64Cursor(n) for n in (41, 42, 42, 42)]
    assert cursors(both) == [Int64Cursor(n) for n in (41, 42, 42)]
