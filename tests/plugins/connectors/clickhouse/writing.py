"""Runs of one stream into the `clickhouse` destination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.quote import qualified
from gauss.clients.clickhouse.server import address_of
from gauss.connect.evolution import SchemaPlan, plan_schema
from gauss.contracts.connector.cursor import CursorInfo, CursorType
from gauss.contracts.connector.stream import (
    OPERATION,
    Append,
    Columns,
    DataErrorPolicy,
    SchemaEvolutionPolicy,
    StreamContext,
    StreamLimits,
    StreamPolicies,
    SyncMode,
    Upsert,
    WriteMode,
)
from gauss.plugins.connectors.clickhouse.destination import ClickHouseDestination
from gauss.plugins.connectors.clickhouse.destination_spec import ClickHouseDestinationConfig
from helpers.connectors import Seen
from helpers.destinations import FULL, INCREMENTAL, Destinations, Written, emit


class DestinationFixture(Destinations[ClickHouseDestination]):
    """Makes destinations of one server, which write to one database."""

    def __init__(self, url: str, database: str, **config: Any) -> None:
        self.database = database
        super().__init__(ClickHouseDestination, "dest-clickhouse", {"dsn": url, "schema": database, **config})

    def stream(
        self,
        mode: SyncMode = INCREMENTAL,
        write: WriteMode | None = None,
        name: str = "public.t",
        policy: DataErrorPolicy = DataErrorPolicy.DLQ,
        evolution: SchemaEvolutionPolicy | None = None,
    ) -> StreamContext:
        return StreamContext(
            *(name, Columns([]), mode),
            None if mode is FULL else CursorInfo("a", CursorType.INT64),
            limits=StreamLimits(max_inflight_batches=1_000_000),
            policies=StreamPolicies(policy, evolution or SchemaEvolutionPolicy()),
            write_mode=write or Append(),
        )

    def prepare(
        self, made: ClickHouseDestination, stream: StreamContext, rows: pa.Schema, generation: int = 1
    ) -> SchemaPlan:
        """What a host does before a run."""
        if OPERATION in rows.names and isinstance(stream.write_mode, Upsert):
            rows = rows.remove(rows.get_field_index(OPERATION))
        live, landed = made.describe(stream), made.landed(rows)
        plan = plan_schema(rows, landed, live, stream.policies.schema_evolution)
        made.prepare(stream, made.statements(stream, live, plan.table), generation)
        return plan

    def write(
        self,
        batches: Sequence[pa.RecordBatch],
        stream: StreamContext | None = None,
        *,
        generation: int = 1,
        partition: Any = None,
        schema: pa.Schema | None = None,
        prepare: bool = True,
        finish: bool = True,
        fits: bool = False,
        **config: Any,
    ) -> Written:
        """A whole run, with a checkpoint behind every batch. `fits`: rows are made to fit the table by the host."""
        stream = stream or self.stream()
        idle, _ = self.start(stream, generation)
        manager, plan = self.open(idle, **config), None
        schema = schema or (batches[0].schema if batches else None)
        if prepare and schema is not None:
            plan = self.prepare(manager, stream, schema, generation)
        run, source = self.start(stream, generation, partition, schema=plan if fits else None)
        emit(source, batches)
        destination = self.open(run, **config)
        try:
            summary = destination.run_write(stream)
            if finish:
                destination.finish(stream, generation)
        finally:
            destination.close()
            manager.close()
        assert isinstance(run.observer, Seen)
        return Written(summary, run.observer, plan)

    def query(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query in the server's database of the `dsn`."""
        with connect(address_of(ClickHouseDestinationConfig.model_validate(self.config))) as client:
            return [tuple(row) for row in client.query(query).result_rows]

    def run_sql(self, *statements: str) -> None:
        with connect(address_of(ClickHouseDestinationConfig.model_validate(self.config))) as client:
            for statement in statements:
                client.command(statement)

    def rows(self, table: str = "t", order: str = "1", columns: str = "*", final: bool = False) -> list[Any]:
        """The rows of a table."""
        name = qualified(table, self.database)
        return self.query(f"SELECT {columns} FROM {name}{' FINAL' if final else ''} ORDER BY {order}")

    def stages(self) -> list[str]:
        """The staging tables that there are."""
        query = "SELECT name FROM system.tables WHERE database = '{}' AND startsWith(name, '_gauss_stage')"
        return [name for (name,) in self.query(query.format(self.database))]
