"""What a destination has written and committed."""

from __future__ import annotations

import time
from collections.abc import Callable

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Host, Mark
from gauss.contracts.connector.progress import (
    Checkpoint,
    CheckpointKind,
    Counter,
    Histogram,
    Metric,
    WritePerf,
    WriteSummary,
)


class Commits:
    """Counts and reports the rows of one run of a stream."""

    def __init__(self, host: Host, stream: str, connect_secs: float = 0.0) -> None:
        self._host, self._stream, self._connect_secs = host, stream, connect_secs
        self._rows = self._bytes = self._batches = 0
        self._committed = (0, 0, 0)
        self._checkpoints = 0
        self._flush_secs = self._commit_secs = 0.0

    @property
    def uncommitted(self) -> int:
        """Rows behind the last commit."""
        return self._rows - self._committed[0]

    def run(self, write: Callable[[Batch], None], commit: Callable[[Mark], None], *, at_end: bool = False) -> None:
        """Writes batches and commits at marks until the source has ended. `at_end`: commits only at the final mark."""
        while (found := self._host.next_delivery()) is not None:
            if isinstance(found, Batch):
                write(found)
            elif found.final or not at_end:
                self.commit(found, commit)

    def wrote(self, rows: int, size: int, since: float) -> None:
        """A batch was written, in the time since a value of `time.monotonic`."""
        self._flush_secs += time.monotonic() - since
        self._rows, self._bytes, self._batches = self._rows + rows, self._bytes + size, self._batches + 1
        self._host.report_progress(self._rows, self._bytes)

    def discard(self) -> None:
        """What was written counts for another attempt, which has committed it."""
        self._rows = self._bytes = self._batches = 0

    def commit(self, mark: Mark, write: Callable[[Mark], None]) -> None:
        """Commits by `write` what was written up to a mark, and makes a checkpoint of it."""
        started = time.monotonic()
        write(mark)
        seconds = time.monotonic() - started
        self._commit_secs += seconds
        self._committed = self._rows, self._bytes, self._batches
        self._checkpoints += 1
        self._measure("commit_ms", Histogram(seconds * 1_000))
        made = Checkpoint(
            mark.id, CheckpointKind.DEST, self._stream, records_processed=self._rows, bytes_processed=self._bytes
        )
        self._host.checkpoint(made)

    def end(self) -> WriteSummary:
        """The summary of what was committed, which is also reported as metrics."""
        rows, size, batches = self._committed
        measured = {
            "records": rows,
            "bytes": size,
            "batches": batches,
            "checkpoints": self._checkpoints,
            "flush_ms": round(self._flush_secs * 1_000),
        }
        for name, value in measured.items():
            self._measure(name, Counter(value))
        perf = WritePerf(self._connect_secs, self._flush_secs, self._commit_secs)
        return WriteSummary(rows, size, batches, self._checkpoints, perf)

    def check_end(self) -> None:
        """Raises ConnectorError for rows behind the last mark. Those of a run that is stopped will be read again."""
        if not self.uncommitted or self._host.cancelled():
            return
        raise ConnectorError.internal(
            "NO_CHECKPOINT",
            f"the source ended {self.uncommitted} rows behind its last checkpoint, so that they can't be written"
            " exactly once",
            hint="the source has to emit a checkpoint at its end",
        )

    def _measure(self, name: str, value: Counter | Histogram) -> None:
        self._host.metric(Metric(name, value, [("stream", self._stream)]))
