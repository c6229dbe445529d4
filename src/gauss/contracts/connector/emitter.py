"""What a source has emitted, and when it makes a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gauss.contracts.connector.host import Host, Opaque
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Counter, Metric, ReadSummary
from gauss.contracts.connector.settings import CheckpointThresholds
from gauss.contracts.connector.stream import StreamContext

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.connector.cursor import CursorValue


class Emitter:
    """Emits the batches of one run of a stream, counts them and makes checkpoints."""

    def __init__(self, host: Host, stream: StreamContext, thresholds: CheckpointThresholds) -> None:
        self.host, self.stream = host, stream
        self.records = self.size = self.batches = self.checkpoints = 0
        self.fetch_s = self.decode_s = 0.0
        """Time that the source has spent to get rows, and to make batches of them."""
        self.thresholds = thresholds
        self._since = (0, 0, time.monotonic())

    def emit(self, batches: Iterable[pa.RecordBatch | Opaque], size: int) -> None:
        """Emits batches that were `size` bytes in the source."""
        for batch in batches:
            self.host.emit_batch(batch)
            self.batches += 1
            self.records += batch.rows if isinstance(batch, Opaque) else batch.num_rows
        self.size += size
        self.host.report_progress(self.records, self.size)

    def due(self) -> bool:
        """Whether a checkpoint is to be made at the next position that can have one."""
        records, size, moment = self._since
        limits = self.thresholds
        return (
            2 * (self.records - records) >= limits.rows
            or 2 * (self.size - size) >= limits.bytes
            or (self.records > records and time.monotonic() - moment >= limits.secs)
        )

    def checkpoint(self, cursor: CursorValue | None, field: str | None = None) -> None:
        """A checkpoint behind all that was emitted. `field`: the column of the cursor."""
        self.checkpoints += 1
        kind, stream = CheckpointKind.SOURCE, self.stream.stream_name
        self.host.checkpoint(Checkpoint(self.batches, kind, stream, field, cursor, self.records, self.size))
        self._since = self.records, self.size, time.monotonic()

    def fetched(self, seconds: float) -> None:
        self.fetch_s += seconds

    def summary(self) -> ReadSummary:
        """The summary of the run, which is also reported as metrics."""
        measured = {
            "records": self.records,
            "bytes": self.size,
            "batches": self.batches,
            "checkpoints": self.checkpoints,
            "fetch_ms": round(self.fetch_s * 1_000),
            "decode_ms": round(self.decode_s * 1_000),
        }
        for name, value in measured.items():
            self.host.metric(Metric(name, Counter(value), [("stream", self.stream.stream_name)]))
        return ReadSummary(self.records, self.size, self.batches, self.checkpoints)
