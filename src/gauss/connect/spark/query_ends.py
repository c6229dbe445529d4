"""The two ends of a query, inside tasks: a source that fills a DataFrame, and a destination that takes its rows."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from gauss.connect.attempt import Attempt, Outcome, Side
from gauss.connect.host import StreamHost
from gauss.connect.spark.frames import as_spark
from gauss.connect.spark.link import Link
from gauss.connect.spark.task import LinkedTask, Pulse, TaskOrder, lost, outcome_json
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Mark, Opaque
from gauss.contracts.connector.json_form import decode, encode
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext

FIRST_WRITER = 1 << 20
"""The number of the first task that writes; those that read have smaller ones."""
END = "_gauss_end"
"""The column that is true in a row behind all others of an increment."""
Rows = queue.Queue[pa.RecordBatch | None]


def read_rows(order: TaskOrder, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one partition of the source."""
    number = next(batch.column(0)[0].as_py() for batch in numbers)
    link = Link(order.link)
    if not order.staged:
        _claim(link, number)
    task = _Reader(link, number)
    run = replace(order, schema=None).run(task, order.partitions[number])
    rows: Rows = queue.Queue(run.stream.limits.max_inflight_batches)
    into = Side(partial(_IntoQueue, rows, link), "destination-query", "1", JsonConfig({}))
    attempt = Attempt(run, order.side("source"), into)
    found: list[Outcome] = []

    def read() -> None:
        found.append(attempt())
        rows.put(None)

    reading = threading.Thread(target=read, name="reading", daemon=True)
    with Pulse(task, attempt):
        reading.start()
        try:
            while (batch := rows.get()) is not None:
                yield as_spark(batch)
        finally:
            if reading.is_alive() and not found:  # the query needs no more rows
                attempt.break_off(ConnectorError.internal("CANCELLED", "the query needs no more rows"))
                while rows.get() is not None:
                    pass
    _end(link, number, Outcome(read=found[0].read, error=found[0].error))


def write_rows(order: TaskOrder, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes the rows of one partition of the result; makes none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    part, link = context.partitionId(), Link(order.link)
    number = FIRST_WRITER + part
    _claim(link, number)
    task = LinkedTask(link, number)
    run = order.run(task, {"result": part} if order.staged else None)
    source = Side(partial(_FromIterator, rows, link, order.staged), "source-query", "1", JsonConfig({}))
    attempt = Attempt(run, source, order.side("destination"))
    with Pulse(task, attempt):
        outcome = attempt()
    _end(link, number, Outcome(write=outcome.write, error=outcome.error))
    yield from ()


def _claim(link: Link, number: int) -> None:
    """Ends a task that Spark has started before. The rows of the first one may have ended too early, since what was
    before it was lost: it has then written some of them as if they were all."""
    if not link.call("claim", number):
        _end(link, number, Outcome(error=lost()))


def _end(link: Link, number: int, outcome: Outcome) -> None:
    """Tells the coordinator how a task has ended; raises its error, so that Spark ends the job."""
    link.call("finished", number, outcome_json(outcome))
    if outcome.error is not None:
        raise outcome.error


class _Reader(LinkedTask):
    """A task whose rows are not committed here: nothing becomes safe by its checkpoints."""

    def committed(self, checkpoint: Checkpoint) -> None:
        pass


class _IntoQueue:
    """A destination that passes rows on to the query, and cursors to the coordinator."""

    def __init__(self, rows: Rows, link: Link, host: StreamHost) -> None:
        self._rows, self._link, self._host = rows, link, host

    def open(self, context: OpenContext) -> OpenInfo:  # noqa: ARG002
        return OpenInfo()

    def run_write(self, stream: StreamContext) -> WriteSummary:  # noqa: ARG002
        while (item := self._host.next_delivery()) is not None:
            if isinstance(item, Mark):
                self._link.call("cursor", None if item.cursor is None else encode(item.cursor))
            elif not isinstance(item.rows, Opaque):
                self._rows.put(item.rows)
        return WriteSummary()

    def close(self) -> None:
        pass


class _FromIterator:
    """A source of the rows that a query makes."""

    def __init__(self, rows: Iterator[pa.RecordBatch], link: Link, staged: bool, host: StreamHost) -> None:
        self._rows, self._link, self._staged, self._host = rows, link, staged, host

    def open(self, context: OpenContext) -> OpenInfo:  # noqa: ARG002
        return OpenInfo()

    def run_read(self, stream: StreamContext) -> ReadSummary:
        emitted = 0
        for batch in self._spark_rows():
            for piece in pieces(batch, stream.limits.max_batch_bytes):
                self._host.emit_batch(piece)
                emitted += 1
        cursor, info = self._link.call("last_cursor"), stream.cursor_info
        self._host.checkpoint(
            Checkpoint(
                emitted,
                CheckpointKind.SOURCE,
                stream.stream_name,
                info.cursor_field if info is not None else None,
                None if cursor is None else decode(cursor, CursorValue),
            )
        )
        return ReadSummary()

    def _spark_rows(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows if self._staged else complete(self._rows)
        except Exception as error:  # what is before this end of the query was lost
            raise lost() from error

    def close(self) -> None:
        pass


def complete(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows before the one that ends them; raises EOFError if there is none."""
    for batch in rows:
        is_last = batch.num_rows and batch.column(END)[-1].as_py()
        yield batch.slice(0, batch.num_rows - bool(is_last)).drop_columns([END])
        if is_last:
            return
    raise EOFError("the rows of the query ended without their end")


def pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in batches of at most so many bytes; a row that is larger stays alone."""
    if not batch.num_rows:
        return
    if batch.nbytes <= most_bytes or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from pieces(batch.slice(0, middle), most_bytes)
    yield from pieces(batch.slice(middle), most_bytes)
