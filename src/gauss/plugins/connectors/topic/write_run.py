"""Appends the batches of one run of a stream to a topic."""

from __future__ import annotations

import time

import msgspec
import pyarrow as pa

from gauss.clients.engine.task_messages import Feed
from gauss.contracts.connector.commits import Commits
from gauss.contracts.connector.errors import CommitState, ConnectorError
from gauss.contracts.connector.host import Batch, Host, LogLevel, Mark, Opaque
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.progress import Counter, Metric, WriteSummary
from gauss.contracts.connector.stream import StreamContext
from gauss.plugins.connectors.topic.records import Encoder
from gauss.plugins.connectors.topic.run_client import RunClient


def writer_of(pipeline: str, stream: StreamContext) -> str:
    """The name under which the engine keeps the position of a stream."""
    return f"{pipeline}/{stream.stream_name}"


class WriteRun:
    """A run of a stream."""

    def __init__(self, host: Host, stream: StreamContext, run: RunClient, topic: str, encoder: Encoder) -> None:
        self._host, self._stream, self._run, self._topic, self._encoder = host, stream, run, topic, encoder
        self._kept: list[pa.Array] = []
        self._marks = 0
        self._dropped = 0
        self._commits = Commits(host, stream.stream_name)

    def __call__(self) -> WriteSummary:
        self._commits.run(self._take, self._append)
        self._commits.check_end()
        return self._commits.end()

    def _take(self, batch: Batch) -> None:
        rows = batch.rows
        if isinstance(rows, Opaque):
            raise ConnectorError.internal("OPAQUE", f"expected Arrow batches, found {rows.kind}")
        began = time.monotonic()
        records, bad = self._encoder.encode(rows)
        for row, error in bad:
            self._host.reject(rows.slice(row, 1), error)
        if len(records):
            self._kept.append(records)
        self._commits.wrote(len(records), records.nbytes, began)

    def _append(self, mark: Mark) -> None:
        self._marks += 1
        try:
            if self._host.partition is None:
                cursor = None if mark.cursor is None else msgspec.json.decode(encode(mark.cursor))
                position = {"id": mark.id, "cursor": cursor, "done": mark.final}
                writer = writer_of(self._host.pipeline, self._stream)
                feed = Feed(writer, self._host.generation, self._marks, self._topic, position)
                self._run.feed(feed, self._kept)
            elif self._kept:  # of a full refresh, which has no cursor
                self._drop(sum(len(each) for each in self._kept) - self._run.append(self._topic, self._kept))
        except ConnectorError as error:
            if error.retryable:
                error.commit_state, error.safe_to_retry = CommitState.AFTER_COMMIT_UNKNOWN, False
            raise
        self._kept = []

    def _drop(self, records: int) -> None:
        if records:
            self._dropped += records
            message = f'topic "{self._topic}" is full and has dropped {records} records (write_full)'
            self._host.log(LogLevel.WARN, message)
            self._host.metric(Metric("records_dropped", Counter(self._dropped), [("stream", self._stream.stream_name)]))
