"""State and observer of connectors that run outside a sync: opened by the kit, or by tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import LogLevel
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Metric


class MemoryState:
    """Implements `host.StateBackend`."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], bytes] = {}

    def get(self, owner: str, key: str) -> bytes | None:
        return self.values.get((owner, key))

    def put(self, owner: str, key: str, value: bytes) -> None:
        self.values[owner, key] = value

    def compare_and_set(self, owner: str, key: str, expected: bytes | None, value: bytes) -> bool:
        if self.get(owner, key) != expected:
            return False
        self.put(owner, key, value)
        return True


@dataclass
class Observed:
    """Keeps what a run reports. Implements `host.Observer`."""

    safe: list[Checkpoint] = field(default_factory=list)
    totals: dict[CheckpointKind, tuple[int, int]] = field(default_factory=dict)
    lines: list[tuple[str, LogLevel, str]] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    letters: list[tuple[CheckpointKind, pa.RecordBatch, ConnectorError]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    """Of the rows among the letters."""

    def committed(self, checkpoint: Checkpoint) -> None:
        self.safe.append(checkpoint)

    def progressed(self, kind: CheckpointKind, records: int, size: int) -> None:
        self.totals[kind] = records, size

    def logged(self, connector: str, level: LogLevel, message: str) -> None:
        self.lines.append((connector, level, message))

    def measured(self, connector: str, metric: Metric) -> None:  # noqa: ARG002
        self.metrics.append(metric)

    def rejected(self, kind: CheckpointKind, rows: pa.RecordBatch, error: ConnectorError, ids: list[str]) -> None:
        self.ids += ids
        self.letters.append((kind, rows, error))

    def settle_rejected(self) -> None: ...
