"""Which cursor of a stream is safe, by the checkpoints of source and destination.

Batches are numbered from 1 and arrive in the order in which they were emitted. A source's checkpoint k says that the
cursor is behind batches 1..k, a destination's that batches 1..k are durably committed. So the cursor of the largest
source checkpoint that is not above the largest destination checkpoint is safe, once the rows that the source rejected
before it are kept as dead letters.
"""

from __future__ import annotations

from collections import deque

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind


class Correlation:
    """The checkpoints of one run of a stream."""

    def __init__(self) -> None:
        self.committed: Checkpoint | None = None
        """The source's checkpoint whose cursor is safe; None before the first."""
        self._coming: deque[tuple[Checkpoint, int]] = deque()
        self._last = {CheckpointKind.SOURCE: 0, CheckpointKind.DEST: 0}
        self._lettered = 0

    def add(self, checkpoint: Checkpoint, most: int, rejections: int = 0) -> Checkpoint | None:
        """Notes a checkpoint; `most`: how many batches were emitted, or delivered; `rejections`: how many there were
        before a source's. Returns the source's checkpoint that has become safe by it, None if there is no new one.
        Raises ConnectorError for an id that goes back, or counts batches that do not exist."""
        kind, last = checkpoint.kind, self._last[checkpoint.kind]
        done = "emitted" if kind is CheckpointKind.SOURCE else "delivered"
        if checkpoint.id < last or checkpoint.id > most:
            raise ConnectorError.internal(
                "BAD_CHECKPOINT",
                f"the id of a {kind} checkpoint is between {last}, the last one, and {most}, the number of batches that"
                f" were {done}; found {checkpoint.id}",
            )
        self._last[kind] = checkpoint.id
        if kind is CheckpointKind.SOURCE:
            if self._coming and (self._coming[-1][0].id, self._coming[-1][1]) == (checkpoint.id, rejections):
                self._coming.pop()  # both become safe at once
            self._coming.append((checkpoint, rejections))
        return self._safe()

    def lettered(self) -> Checkpoint | None:
        """Notes that the next rejection of the source is kept. Returns as `add`."""
        self._lettered += 1
        return self._safe()

    def _safe(self) -> Checkpoint | None:
        found = None
        while self._coming:
            checkpoint, rejections = self._coming[0]
            if checkpoint.id > self._last[CheckpointKind.DEST] or rejections > self._lettered:
                break
            found = checkpoint
            self._coming.popleft()
        self.committed = found or self.committed
        return found
