"""State and observer of connectors that the kit opens itself, outside a sync."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import LogLevel
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Metric


class MemoryState:
    """Implements `host.StateBackend`."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], bytes] = {}

    def get(self, owner: str, key: str) -> bytes | None:
        return self._values.get((owner, key))

    def put(self, owner: str, key: str, value: bytes) -> None:
        self._values[owner, key] = value

    def compare_and_set(self, owner: str, key: str, expected: bytes | None, value: bytes) -> bool:
        if self.get(owner, key) != expected:
            return False
        self.put(owner, key, value)
        return True


@dataclass
class Observed:
    """Implements `host.Observer`."""

    committed_checkpoints: list[Checkpoint] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    letters: list[ConnectorError] = field(default_factory=list)

    def committed(self, checkpoint: Checkpoint) -> None:
        self.committed_checkpoints.append(checkpoint)

    def progressed(self, kind: CheckpointKind, records: int, size: int) -> None: ...

    def logged(self, connector: str, level: LogLevel, message: str) -> None:  # noqa: ARG002
        self.lines.append(message)

    def measured(self, connector: str, metric: Metric) -> None: ...

    def rejected(self, kind: CheckpointKind, rows: pa.RecordBatch, error: ConnectorError, ids: list[str]) -> None:  # noqa: ARG002
        self.letters.append(error)
