"""Moves streams from and to files, as a host does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.connect.attempt import Attempt, Outcome, Side
from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.arrow_types import column_schemas
from gauss.contracts.connector.connector import ManagedDestination
from gauss.contracts.connector.cursor import CursorInfo, CursorType, CursorValue, Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import (
    Append,
    Columns,
    DataErrorPolicy,
    StreamContext,
    StreamLimits,
    StreamPolicies,
    SyncMode,
    WriteMode,
)
from gauss.plugins.connectors.file.destination import FileDestination
from gauss.plugins.connectors.file.source import FileSource
from helpers.connectors import Seen, Values

FULL, INCREMENTAL = SyncMode.FULL_REFRESH, SyncMode.INCREMENTAL
FORMATS = [
    {"format": "csv"},
    {"format": "csv", "compression": "gzip", "delimiter": ";"},
    {"format": "jsonl"},
    {"format": "jsonl", "compression": "zstd"},
    {"format": "parquet"},
    {"format": "parquet", "compression": "snappy"},
    {"format": "arrow"},
    {"format": "arrow", "compression": "lz4"},
]
NAMES = ["-".join(each.values()) for each in FORMATS]


def reads(path: Path, **config: Any) -> Side:
    """The file source."""
    return Side(FileSource, "source-file", "1", JsonConfig({"path": str(path), **config}))


def writes(path: Path, **config: Any) -> Side:
    """The file destination."""
    return Side(FileDestination, "dest-file", "1", JsonConfig({"path": str(path), **config}))


def emits(*batches: pa.RecordBatch) -> Side:
    """A source of given batches, with a checkpoint after each, whose cursor counts them."""

    class Given:
        def __init__(self, host: StreamHost) -> None:
            self._host = host

        def open(self, context: OpenContext) -> OpenInfo:  # noqa: ARG002
            return OpenInfo()

        def close(self) -> None: ...

        def run_read(self, stream: StreamContext) -> ReadSummary:
            last = stream.cursor_info.last_value if stream.cursor_info else None
            first = last.value if isinstance(last, Int64Cursor) else 0
            for number, batch in enumerate(batches[first:], 1):
                self._host.emit_batch(batch)
                self._mark(stream, number, first + number)
            if not batches[first:]:
                self._mark(stream, 0, first)
            return ReadSummary()

        def _mark(self, stream: StreamContext, number: int, cursor: int) -> None:
            self._host.checkpoint(
                Checkpoint(number, CheckpointKind.SOURCE, stream.stream_name, "n", Int64Cursor(cursor))
            )

    return Side(Given, "source-given", "1", JsonConfig({}))


@dataclass
class Kept:
    """What a destination in memory was given."""

    batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def side(self) -> Side:
        kept = self

        class Keeping:
            def __init__(self, host: StreamHost) -> None:
                self._host = host

            def open(self, context: OpenContext) -> OpenInfo:  # noqa: ARG002
                return OpenInfo()

            def close(self) -> None: ...

            def run_write(self, stream: StreamContext) -> WriteSummary:
                count = 0
                while (batch := self._host.next_batch()) is not None:
                    assert isinstance(batch, pa.RecordBatch)
                    kept.batches.append(batch)
                    count += 1
                self._host.checkpoint(Checkpoint(count, CheckpointKind.DEST, stream.stream_name))
                return WriteSummary()

        return Side(Keeping, "dest-kept", "1", JsonConfig({}))

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches)

    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch.to_pylist()]


@dataclass
class Moved:
    """The result of a run of a stream."""

    outcome: Outcome
    seen: Seen

    @property
    def cursor(self) -> CursorValue | None:
        return self.seen.safe[-1].cursor_value

    @property
    def error(self) -> ConnectorError:
        assert self.outcome.error is not None
        return self.outcome.error

    def ok(self) -> Moved:
        if self.outcome.error is not None:
            raise self.outcome.error
        return self


@dataclass(frozen=True)
class Wanted:
    """How a stream is moved."""

    stream: str = "s"
    mode: SyncMode = FULL
    write: WriteMode = field(default_factory=Append)
    generation: int = 1
    cursor: CursorValue | None = None
    partition: Any = None
    on_data_error: DataErrorPolicy = DataErrorPolicy.FAIL
    limits: StreamLimits = field(default_factory=StreamLimits)
    columns: pa.Schema | None = None
    """What the host tells both connectors of the columns."""
    schema: pa.Schema | None = None
    """Given to `statements` of the destination."""
    pipeline: str = "p"
    finish: bool = True

    def context(self) -> StreamContext:
        info = CursorInfo("n", CursorType.JSON, self.cursor) if self.mode is INCREMENTAL else None
        policies = StreamPolicies(self.on_data_error)
        columns = Columns(column_schemas(self.columns) if self.columns is not None else [])
        return StreamContext(self.stream, columns, self.mode, info, self.limits, policies, self.write)

    def run(self) -> tuple[StreamRun, Seen]:
        seen = Seen()
        run = StreamRun(
            self.context(),
            Values(),
            seen,
            pipeline=self.pipeline,
            generation=self.generation,
            partition=self.partition,
        )
        return run, seen


@contextmanager
def opened(side: Side, wanted: Wanted, kind: CheckpointKind = CheckpointKind.DEST) -> Iterator[Any]:
    """A connector outside of a run."""
    run, _ = wanted.run()
    connector, _ = side.open(StreamHost(run, kind, side.id))
    try:
        yield connector
    finally:
        connector.close()


def move(source: Side, destination: Side, wanted: Wanted | None = None) -> Moved:
    """One run of a stream."""
    wanted = wanted or Wanted()
    run, seen = wanted.run()
    with opened(destination, wanted) as manager:
        if isinstance(manager, ManagedDestination):
            live = manager.describe(run.stream)
            schema = wanted.schema
            statements = manager.statements(run.stream, live, manager.landed(schema)) if schema is not None else []
            manager.prepare(run.stream, statements, wanted.generation)
        outcome = Attempt(run, source, destination)()
        if isinstance(manager, ManagedDestination) and outcome.error is None and wanted.finish:
            manager.finish(run.stream, wanted.generation)
    return Moved(outcome, seen)


def read(path: Path, wanted: Wanted | None = None, **config: Any) -> Kept:
    """All rows of a stream of files."""
    kept = Kept()
    move(reads(path, **config), kept.side, wanted).ok()
    return kept


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def ns(path: Path, stream: str = "s") -> list[int]:
    """The column n of a stream of files."""
    return [row["n"] for row in read(path, Wanted(stream)).rows()]


class Increments:
    """Runs of an incremental stream, each from the cursor of the one before."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.path, self.config = path, config
        self.cursor: Any = None
        self.seen: list[int] = []

    def run(self, on_data_error: DataErrorPolicy = DataErrorPolicy.FAIL) -> Moved:
        kept = Kept()
        wanted = Wanted(self.path.name, INCREMENTAL, cursor=self.cursor, on_data_error=on_data_error)
        moved = move(reads(self.path, **self.config), kept.side, wanted)
        if moved.outcome.error is None:
            self.cursor = moved.cursor
            self.seen = [row["n"] for row in kept.rows()]
        return moved


def write_numbers(path: Path, *values: int) -> None:
    path.write_text("".join(f'{{"n":{n}}}\n' for n in values))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, if this is root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
