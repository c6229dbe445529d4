"""Appends the batches of one run of a stream to a topic."""

from __future__ import annotations

import time

import msgspec
import pyarrow as pa

from gauss.clients.engine.task_messages import Feed
from gauss.contracts.connector.errors import CommitState, ConnectorError
from gauss.contracts.connector.host import Batch, Host, LogLevel, Mark, Opaque
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.progress import (
    Checkpoint,
    CheckpointKind,
    Counter,
    Gauge,
    Metric,
    WritePerf,
    WriteSummary,
)
from gauss.contracts.connector.stream import StreamContext, SyncMode
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
        self._marks = self._last = 0
        self._records = self._bytes = self._batches = self._checkpoints = self._dropped = 0
        self._encode_s = self._append_s = 0.0

    def __call__(self) -> WriteSummary:
        while (found := self._host.next_delivery()) is not None:
            if isinstance(found, Mark):
                self._commit(found)
            else:
                self._take(found)
        self._end()
        self._measure()
        perf = WritePerf(0.0, self._encode_s, self._append_s)
        return WriteSummary(self._records, self._bytes, self._batches, self._checkpoints, perf)

    def _take(self, batch: Batch) -> None:
        rows = batch.rows
        if isinstance(rows, Opaque):
            raise ConnectorError.internal("OPAQUE", f"expected Arrow batches, found {rows.kind}")
        began = time.monotonic()
        records, bad = self._encoder.encode(rows)
        self._encode_s += time.monotonic() - began
        for row, error in bad:
            self._host.reject(rows.slice(row, 1), error)
        self._batches += 1
        self._last = batch.id
        if len(records):
            self._kept.append(records)
            self._records += rows.num_rows - len(bad)
            self._bytes += records.nbytes
        self._host.report_progress(self._records, self._bytes)

    def _end(self) -> None:
        """Handles rows behind the last mark. Those of a run that is stopped will be read again."""
        if not self._kept or self._host.cancelled():
            return
        if self._stream.sync_mode is not SyncMode.FULL_REFRESH:
            rows = sum(len(each) for each in self._kept)
            raise ConnectorError.internal(
                "NO_CHECKPOINT",
                f"the source ended {rows} records behind its last checkpoint, which can't be written exactly once",
                hint="the source has to emit a checkpoint at its end",
            )
        self._commit(Mark(self._last, None, final=True))

    def _append(self, mark: Mark) -> None:
        began = time.monotonic()
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
        self._append_s += time.monotonic() - began

    def _drop(self, records: int) -> None:
        if records:
            self._dropped += records
            message = f'topic "{self._topic}" is full and has dropped {records} records (write_full)'
            self._host.log(LogLevel.WARN, message)

    def _commit(self, mark: Mark) -> None:
        self._append(mark)
        self._host.checkpoint(
            Checkpoint(
                mark.id,
                CheckpointKind.DEST,
                self._stream.stream_name,
                records_processed=self._records,
                bytes_processed=self._bytes,
            )
        )
        self._checkpoints += 1

    def _measure(self) -> None:
        labels = [("stream", self._stream.stream_name)]
        counts = (
            ("records_written", self._records),
            ("bytes_written", self._bytes),
            ("records_dropped", self._dropped),
        )
        for name, count in counts:
            self._host.metric(Metric(name, Counter(count), labels))
        for name, secs in (("encode_ms", self._encode_s), ("commit_ms", self._append_s)):
            self._host.metric(Metric(name, Gauge(secs * 1000), labels))
