"""The `clickhouse` destination: tables that follow their stream, and rows that are written exactly once.

How, without transactions: `destination_writer` (rows and commits), `destination_publish` (recovery, full refreshes),
`clients/clickhouse/sync_log` (the order of commits), `clients/clickhouse/publish` (publishing, and finding out what is
published).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.clients.clickhouse import live
from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.quote import identifier
from gauss.clients.clickhouse.server import address_of
from gauss.clients.clickhouse.stages import rows_of
from gauss.clients.clickhouse.sync_log import EntryKind
from gauss.clients.clickhouse.write import execute
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host, LogLevel
from gauss.contracts.connector.json_form import decode
from gauss.contracts.connector.lifecycle import (
    ConfigBlob,
    Feature,
    JsonConfig,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import WriteSummary
from gauss.contracts.connector.settings import typed_config
from gauss.contracts.connector.stream import StreamContext
from gauss.model.errors import GaussError, Unavailable
from gauss.plugins.connectors.clickhouse import destination_publish
from gauss.plugins.connectors.clickhouse.destination_errors import destination_errors
from gauss.plugins.connectors.clickhouse.destination_spec import ClickHouseDestinationConfig
from gauss.plugins.connectors.clickhouse.destination_table import StreamTable, ddl, described, landed
from gauss.plugins.connectors.clickhouse.destination_writer import Writer

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

FEATURES = [Feature.EXACTLY_ONCE, Feature.CDC, Feature.SCHEMA_AUTO_MIGRATE]
FINISH_SECONDS, PAUSE_SECONDS = 30.0, 0.5
"""How long `finish` waits for a server that does not answer: a full refresh is complete then, and only to be shown."""
_VERSION = """
SELECT version(), (SELECT count() FROM system.merge_tree_settings WHERE name = 'enable_block_number_column'),
    (SELECT any(engine) FROM system.databases WHERE name = {database:String})
"""


class ClickHouseDestination:
    """Implements `Destination` and `ManagedDestination`. Used by one thread."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = ClickHouseDestinationConfig()
        self._open: Client | None = None
        self._connect_secs = 0.0

    def open(self, context: OpenContext) -> OpenInfo:
        assert isinstance(context.config, JsonConfig)
        self._config = typed_config(context.config, ClickHouseDestinationConfig)
        started = time.monotonic()
        with destination_errors():
            self._open = connect(address_of(self._config))
        self._connect_secs = time.monotonic() - started
        return OpenInfo(features=FEATURES)

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        """Checks that the server has what exactly-once delivery needs."""
        with destination_errors():
            ((version, numbers, engine),) = rows_of(self._client, _VERSION, database=self._config.target_database)
        if not numbers:
            message = f"expected ClickHouse 24.6 or newer (enable_block_number_column), found {version}"
            return ValidationResult(ValidationStatus.FAILED, message)
        if engine == "Ordinary":
            message = f"database {self._config.target_database} has the engine Ordinary, which can't replace tables"
            return ValidationResult(ValidationStatus.WARNING, message)
        return ValidationResult(ValidationStatus.SUCCESS)

    def close(self) -> None:
        client, self._open = self._open, None
        if client is not None:
            client.close()

    def landed(self, schema: pa.Schema) -> pa.Schema:
        with destination_errors():
            return landed(schema)

    def describe(self, stream: StreamContext) -> pa.Schema | None:
        table = self._table(stream)
        with destination_errors():
            found = live.describe(self._client, table.name, table.database)
            return None if found is None else described(table, found)

    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:
        table = self._table(stream)
        with destination_errors():
            found = None if live is None else table.live(self._client)
            return [*self._database_ddl(), *ddl(table, found, live, wanted)]

    def _database_ddl(self) -> list[str]:
        name = identifier(self._config.target_database)
        ((there,),) = rows_of(self._client, f"EXISTS DATABASE {name}")
        # Asked first: IF NOT EXISTS needs the privilege to create databases even for one that exists.
        return [] if there else [f"CREATE DATABASE IF NOT EXISTS {name}"]

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:
        """Fences older runs, runs the statements and publishes what older runs have committed. Begins a run: what
        was staged before is not part of it."""
        table, client = self._table(stream), self._client
        with destination_errors():
            execute(client, self._database_ddl())
            table.log.create(client)
            state = destination_publish.claim(client, table, generation)
            destination_publish.drop_stages(client, table, state)
            execute(client, statements)
            table.live(client)
            destination_publish.recover(client, table, state)
            try:
                table.log.compact(client, state)
            except GaussError as error:
                self._host.log(LogLevel.WARN, f"old entries of the log of commits remain: {error.message}")

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:
        table = self._table(stream)
        with destination_errors():
            if not table.log.exists(self._client):
                return None
            found = table.log.replay(self._client).heads.get(partition)
        # What a full refresh has staged may never have become visible.
        if found is None or (found.kind is EntryKind.STAGE and not table.is_staged):
            return None
        cursor = None if found.cursor is None else decode(found.cursor.encode(), CursorValue)
        return Watermark(found.generation, found.id, cursor, found.done)

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema) -> str:  # noqa: ARG002
        return ""

    def run_write(self, stream: StreamContext) -> WriteSummary:
        return Writer(self._client, self._host, self._table(stream), self._connect_secs).run()

    def finish(self, stream: StreamContext, generation: int) -> None:
        table = self._table(stream)
        if not table.is_staged:
            return
        deadline = time.monotonic() + FINISH_SECONDS
        with destination_errors():
            while True:
                try:
                    destination_publish.finish(self._client, table, generation)
                    return
                except Unavailable as error:
                    if time.monotonic() > deadline:
                        raise
                    self._host.log(LogLevel.WARN, f"the end of the refresh is repeated: {error.message}")
                time.sleep(PAUSE_SECONDS)

    @property
    def _client(self) -> Client:
        if self._open is None:
            raise ConnectorError.internal("NOT_OPEN", "the connector is not open")
        return self._open

    def _table(self, stream: StreamContext) -> StreamTable:
        with destination_errors():
            return StreamTable(self._config, self._host.pipeline, stream)
