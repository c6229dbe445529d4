"""Runs of one stream into the `postgres` destination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import connect
from gauss.connect.evolution import plan_schema
from gauss.contracts.connector.host import Opaque
from gauss.contracts.connector.stream import (
    Append,
    Columns,
    DataErrorPolicy,
    SchemaEvolutionPolicy,
    StreamContext,
    StreamLimits,
    StreamPolicies,
    SyncMode,
    WriteMode,
)
from gauss.plugins.connectors.postgres.destination import PostgresDestination
from helpers.connectors import Seen
from helpers.destinations import INCREMENTAL, Destinations, Written, emit

Rows = Sequence[pa.RecordBatch | Opaque]


class DestinationFixture(Destinations[PostgresDestination]):
    """Makes destinations of one server, which write to one schema."""

    def __init__(self, address: Endpoint | str, schema: str, **config: Any) -> None:
        url = address if isinstance(address, str) else address.url
        self.schema = schema
        super().__init__(PostgresDestination, "dest-postgres", {"dsn": url, "schema": schema, **config})

    def stream(
        self,
        mode: SyncMode = INCREMENTAL,
        write: WriteMode | None = None,
        name: str = "public.t",
        policy: DataErrorPolicy = DataErrorPolicy.DLQ,
    ) -> StreamContext:
        return StreamContext(
            *(name, Columns([]), mode),
            limits=StreamLimits(max_inflight_batches=1_000_000),
            policies=StreamPolicies(policy),
            write_mode=write or Append(),
        )

    def prepare(self, made: PostgresDestination, stream: StreamContext, rows: pa.Schema, generation: int = 1) -> None:
        """What a host does before a run."""
        live, landed = made.describe(stream), made.landed(rows)
        plan = plan_schema(rows, landed, live, SchemaEvolutionPolicy())
        made.prepare(stream, made.statements(stream, live, plan.table), generation)

    def write(
        self,
        batches: Rows,
        stream: StreamContext | None = None,
        *,
        generation: int = 1,
        partition: Any = None,
        opaque: str = "",
        schema: pa.Schema | None = None,
        finish: bool = True,
        **config: Any,
    ) -> Written:
        """A whole run, with a checkpoint behind every batch."""
        stream = stream or self.stream()
        run, source = self.start(stream, generation, partition, opaque=opaque)
        emit(source, batches)
        destination = self.open(run, **config)
        try:
            first = next((each.schema for each in batches if not isinstance(each, Opaque)), schema)
            if first is not None:
                self.prepare(destination, stream, first, generation)
            summary = destination.run_write(stream)
            if finish:
                destination.finish(stream, generation)
        finally:
            destination.close()
        assert isinstance(run.observer, Seen)
        return Written(summary, run.observer)

    def rows(self, table: str = "t", order: str = "1", columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows of a table."""
        with connect(self.config["dsn"]) as connection:
            name = f'"{self.schema}"."{table}"'
            return connection.execute(f"SELECT {columns} FROM {name} ORDER BY {order}".encode()).fetchall()
