"""Runs of one stream into a destination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from gauss.connect.evolution import SchemaPlan
from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.host import Host, Opaque
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, WriteSummary
from gauss.contracts.connector.stream import StreamContext, SyncMode
from helpers.connectors import Seen, Values

FULL, INCREMENTAL, CDC = SyncMode.FULL_REFRESH, SyncMode.INCREMENTAL, SyncMode.CDC


class Opened(Protocol):
    """A connector that can be opened and closed."""

    def open(self, context: OpenContext) -> OpenInfo: ...

    def close(self) -> None: ...


D = TypeVar("D", bound=Opened)


@dataclass(frozen=True)
class Written:
    """The result of a run."""

    summary: WriteSummary
    seen: Seen
    plan: SchemaPlan | None = None


class Destinations(Generic[D]):
    """Makes destinations of one kind and closes them. `sync`: the name under which they write."""

    sync = "people"

    def __init__(self, kind: Callable[[Host], D], name: str, config: dict[str, Any]) -> None:
        self.config = config
        self._kind, self._name = kind, name
        self._open: list[D] = []

    def open(self, run: StreamRun, **config: Any) -> D:
        made = self._kind(StreamHost(run, CheckpointKind.DEST, self._name))
        self._open.append(made)
        made.open(OpenContext(JsonConfig({**self.config, **config}), self._name, "1"))
        return made

    def close(self) -> None:
        """Closes all destinations: an open transaction of a failed test would block the next one."""
        for made in self._open:
            made.close()

    def start(
        self, stream: StreamContext, generation: int = 1, partition: Any = None, **more: Any
    ) -> tuple[StreamRun, StreamHost]:
        """A run and the host of its source."""
        run = StreamRun(
            stream, Values(), Seen(), pipeline=self.sync, generation=generation, partition=partition, **more
        )
        return run, StreamHost(run, CheckpointKind.SOURCE, "source")


def emit(source: StreamHost, batches: Sequence[pa.RecordBatch | Opaque], first: int = 0) -> None:
    """Emits batches with a checkpoint before the first and after each, and ends the source."""
    name = source.stream.stream_name
    source.checkpoint(Checkpoint(0, CheckpointKind.SOURCE, name, "n", Int64Cursor(first)))
    for number, batch in enumerate(batches, start=1):
        source.emit_batch(batch)
        source.checkpoint(Checkpoint(number, CheckpointKind.SOURCE, name, "n", Int64Cursor(first + number)))
    source.end()


def batch(**columns: Any) -> pa.RecordBatch:
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    return pa.record_batch(arrays)
