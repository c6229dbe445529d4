"""An embedded Postgres, and runs of one stream of the source."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.embedded import ensure
from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect
from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.cursor import CursorInfo, CursorType, CursorValue
from gauss.contracts.connector.host import Batch, Mark, Opaque
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext
from gauss.contracts.connector.progress import CheckpointKind, ReadSummary
from gauss.contracts.connector.stream import (
    Columns,
    DataErrorPolicy,
    StreamContext,
    StreamLimits,
    StreamPolicies,
    SyncMode,
    WriteMode,
)
from gauss.plugins.connectors.postgres.source import PostgresSource
from helpers.connectors import Seen, Values


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The embedded Postgres."""
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as server:
        yield server.endpoint


@pytest.fixture
def connection(postgres: Endpoint) -> Iterator[Connection]:
    with connect(postgres, autocommit=True) as found:
        yield found


@pytest.fixture
def schema(connection: Connection) -> Iterator[str]:
    """A schema that no other test uses."""
    name = f"s_{uuid.uuid4().hex[:12]}"
    connection.execute(f"CREATE SCHEMA {name}".encode())
    yield name
    connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@dataclass
class SourceRun:
    """What a source has emitted."""

    items: list[Batch | Mark]
    seen: Seen
    summary: ReadSummary = field(default_factory=ReadSummary)

    @property
    def batches(self) -> list[pa.RecordBatch]:
        return [each.rows for each in self.items if isinstance(each, Batch) and not isinstance(each.rows, Opaque)]

    @property
    def opaque(self) -> list[Opaque]:
        return [each.rows for each in self.items if isinstance(each, Batch) and isinstance(each.rows, Opaque)]

    @property
    def marks(self) -> list[Mark]:
        return [each for each in self.items if isinstance(each, Mark)]

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches)

    @property
    def cursor(self) -> CursorValue | None:
        return self.marks[-1].cursor


class SourceFixture:
    """Makes sources of one server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.config: dict[str, Any] = {"dsn": endpoint.url}
        self.made: list[PostgresSource] = []

    def stream(
        self, name: str, cursor: str | None = None, last: CursorValue | None = None, **limits: int
    ) -> StreamContext:
        """A stream that is read incrementally if it has a cursor."""
        return StreamContext(
            name,
            Columns([]),
            SyncMode.FULL_REFRESH if cursor is None else SyncMode.INCREMENTAL,
            None if cursor is None else CursorInfo(cursor, CursorType.JSON, last),
            StreamLimits(**{"max_inflight_batches": 1_000_000, **limits}),
            StreamPolicies(DataErrorPolicy.DLQ),
        )

    def changes(
        self, name: str, last: CursorValue | None = None, write: WriteMode | None = None, **limits: int
    ) -> StreamContext:
        """A stream of changes."""
        return StreamContext(
            name,
            Columns([]),
            SyncMode.CDC,
            CursorInfo("", CursorType.JSON, last),
            StreamLimits(**{"max_inflight_batches": 1_000_000, **limits}),
            StreamPolicies(DataErrorPolicy.DLQ),
            write,
        )

    def make(self, run: StreamRun, **config: Any) -> PostgresSource:
        """A source that is open."""
        source = PostgresSource(StreamHost(run, CheckpointKind.SOURCE, "source-postgres"))
        source.open(OpenContext(JsonConfig({**self.config, **config}), "source-postgres", "1"))
        self.made.append(source)
        return source

    def start(self, stream: StreamContext, partition: Any = None, opaque: str = "") -> StreamRun:
        return StreamRun(stream, Values(), Seen(), pipeline="p", partition=partition, opaque=opaque)

    def read(
        self,
        name: str | StreamContext,
        cursor: str | None = None,
        last: CursorValue | None = None,
        *,
        partition: Any = None,
        opaque: str = "",
        config: dict[str, Any] | None = None,
        **limits: int,
    ) -> SourceRun:
        """Reads a stream to its end."""
        stream = self.stream(name, cursor, last, **limits) if isinstance(name, str) else name
        run = self.start(stream, partition, opaque)
        source = self.make(run, **(config or {}))
        try:
            summary = source.run_read(stream)
        finally:
            source.close()
        return SourceRun(list(delivered(run)), run.observer, summary)  # type: ignore[arg-type]


def delivered(run: StreamRun) -> Iterator[Batch | Mark]:
    """The content of a run's channel; rows that the source has rejected become dead letters."""
    host = StreamHost(run, CheckpointKind.DEST, "destination")
    run.channel.end()
    while (item := host.next_delivery()) is not None:
        yield item


@pytest.fixture
def source(postgres: Endpoint, connection: Connection, schema: str) -> Iterator[SourceFixture]:  # noqa: ARG001
    """Closed before the schema is dropped, which would wait for their locks."""
    made = SourceFixture(postgres)
    yield made
    for each in made.made:
        each.close()
    drop_replication(connection)


def drop_replication(connection: Connection) -> None:
    """Drops all slots and publications."""
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
    for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
        connection.execute(f'DROP PUBLICATION "{name}"'.encode())


@pytest.fixture
def run_sql(connection: Connection, schema: str) -> Callable[[str], list[Any]]:
    """Runs statements in the schema of the test, and returns the rows of the last."""

    def run(text: str) -> list[Any]:
        connection.execute(f"SET search_path = {schema}, public".encode())
        cursor = connection.execute(text.encode())
        while cursor.nextset():
            pass
        return cursor.fetchall() if cursor.description else []

    return run
