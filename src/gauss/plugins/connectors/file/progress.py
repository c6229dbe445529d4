"""What a source has emitted, and when it makes a checkpoint."""

from __future__ import annotations

import time

import pyarrow as pa

from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Counter, Metric, ReadSummary
from gauss.plugins.connectors.file.source_spec import CheckpointConfig


class Progress:
    """Emits batches and makes checkpoints when one of the thresholds is reached."""

    def __init__(self, host: Host, stream: str, cursor_field: str | None, thresholds: CheckpointConfig) -> None:
        self._host, self._stream, self._field, self._thresholds = host, stream, cursor_field, thresholds
        self._batches = self._rows = self._bytes = self._checkpoints = 0
        self._since_rows = self._since_bytes = 0
        self._at = time.monotonic()

    def emit(self, batch: pa.RecordBatch) -> None:
        self._host.emit_batch(batch)
        size = int(batch.nbytes)
        self._batches += 1
        self._rows += batch.num_rows
        self._bytes += size
        self._since_rows += batch.num_rows
        self._since_bytes += size
        self._host.report_progress(self._rows, self._bytes)

    def passed(self, cursor: CursorValue | None) -> None:
        """The cursor is behind all that was emitted."""
        limit = self._thresholds
        reached = self._since_bytes >= limit.bytes or self._since_rows >= limit.rows
        if self._since_rows and (reached or time.monotonic() - self._at >= limit.secs):
            self.checkpoint(cursor)

    def checkpoint(self, cursor: CursorValue | None) -> None:
        self._host.checkpoint(
            Checkpoint(
                self._batches,
                CheckpointKind.SOURCE,
                self._stream,
                cursor_field=self._field,
                cursor_value=cursor,
                records_processed=self._rows,
                bytes_processed=self._bytes,
            )
        )
        self._checkpoints += 1
        self._since_rows = self._since_bytes = 0
        self._at = time.monotonic()

    def summary(self) -> ReadSummary:
        found = ReadSummary(self._rows, self._bytes, self._batches, self._checkpoints)
        for name in found.__struct_fields__:
            self._host.metric(Metric(name, Counter(getattr(found, name)), [("stream", self._stream)]))
        return found
