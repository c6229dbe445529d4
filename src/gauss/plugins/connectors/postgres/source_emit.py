"""Emits batches of one stream, counts them and makes checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.host import Host, Opaque
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Counter, Metric, ReadSummary
from gauss.contracts.connector.stream import StreamContext
from gauss.plugins.connectors.postgres.source_spec import CheckpointThresholds


@dataclass
class Totals:
    """Counters of one run."""

    records: int = 0
    size: int = 0
    batches: int = 0
    checkpoints: int = 0
    decode_s: float = 0.0
    fetch_s: float = 0.0

    def summary(self) -> ReadSummary:
        return ReadSummary(self.records, self.size, self.batches, self.checkpoints)

    def metrics(self) -> list[Metric]:
        return [
            Metric("records", Counter(self.records)),
            Metric("bytes", Counter(self.size)),
            Metric("batches", Counter(self.batches)),
            Metric("checkpoints", Counter(self.checkpoints)),
            Metric("fetch_ms", Counter(round(self.fetch_s * 1_000))),
            Metric("decode_ms", Counter(round(self.decode_s * 1_000))),
        ]


class Emitter:
    """What one run of a stream has emitted."""

    def __init__(self, host: Host, stream: StreamContext, thresholds: CheckpointThresholds) -> None:
        self.host, self.stream = host, stream
        self.totals = Totals()
        self._thresholds = thresholds
        self._since = (0, 0, time.monotonic())

    def emit(self, batches: Iterable[pa.RecordBatch | Opaque], size: int) -> None:
        """Emits batches that were `size` bytes in the source."""
        for batch in batches:
            self.host.emit_batch(batch)
            self.totals.batches += 1
            self.totals.records += batch.rows if isinstance(batch, Opaque) else batch.num_rows
        self.totals.size += size
        self.host.report_progress(self.totals.records, self.totals.size)

    def due(self) -> bool:
        """Whether a checkpoint is to be made at the next position that can have one."""
        records, size, moment = self._since
        limits = self._thresholds
        return (
            self.totals.records - records >= limits.rows
            or self.totals.size - size >= limits.bytes
            or (self.totals.size > size and time.monotonic() - moment >= limits.secs)
        )

    def checkpoint(self, field: str | None, cursor: CursorValue | None) -> None:
        """A checkpoint behind all that was emitted."""
        self.totals.checkpoints += 1
        self.host.checkpoint(
            Checkpoint(
                self.totals.batches,
                CheckpointKind.SOURCE,
                self.stream.stream_name,
                field,
                cursor,
                self.totals.records,
                self.totals.size,
            )
        )
        self._since = self.totals.records, self.totals.size, time.monotonic()

    def finish(self) -> None:
        """Reports the metrics of the run."""
        for metric in self.totals.metrics():
            self.host.metric(metric)

    def fetched(self, seconds: float) -> None:
        self.totals.fetch_s += seconds
