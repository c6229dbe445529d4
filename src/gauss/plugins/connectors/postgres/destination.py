"""The `postgres` destination: tables that follow their stream, and rows that are committed with their watermark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa

from gauss.clients.postgres import live
from gauss.clients.postgres.connect import NO_TIME_LIMITS, Connection, connect
from gauss.clients.postgres.quote import identifier, qualified
from gauss.clients.postgres.server import address_of
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError, fenced
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
from gauss.plugins.connectors.postgres.catalog import find_relation
from gauss.plugins.connectors.postgres.catalog import opaque_kind as relation_kind
from gauss.plugins.connectors.postgres.destination_errors import commit, destination_errors
from gauss.plugins.connectors.postgres.destination_publish import publish
from gauss.plugins.connectors.postgres.destination_spec import PostgresDestinationConfig
from gauss.plugins.connectors.postgres.destination_table import StreamTable, ddl, described, landed
from gauss.plugins.connectors.postgres.destination_writer import Writer
from gauss.plugins.connectors.postgres.names import StreamName

FEATURES = [
    *(Feature.EXACTLY_ONCE, Feature.CDC, Feature.SCHEMA_AUTO_MIGRATE),
    *(Feature.BULK_LOAD_COPY, Feature.BULK_LOAD_COPY_BINARY),
]
MIN_VERSION = 120_000
# Text is written, and types are described, as with these settings.
_SESSION = (
    "SET client_encoding = 'UTF8'; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET array_nulls = on;"
    " SET quote_all_identifiers = off"
)
_MAY_CREATE = """
SELECT CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
            ELSE has_schema_privilege(n.oid, 'CREATE') END
FROM (SELECT 1) AS one LEFT JOIN pg_namespace n ON n.nspname = %s
"""
_STAGES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' AND starts_with(c.relname, %s)
"""


class PostgresDestination:
    """Implements `Destination` and `ManagedDestination`. Used by one thread; `interrupt` by any."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = PostgresDestinationConfig()
        self._open: Connection | None = None
        self._connect_secs = 0.0

    def open(self, context: OpenContext) -> OpenInfo:
        assert isinstance(context.config, JsonConfig)
        self._config = typed_config(context.config, PostgresDestinationConfig)
        started = time.monotonic()
        with destination_errors():
            self._open = connect(address_of(self._config, self._config.embedded_dir), autocommit=True)
            self._open.execute(_SESSION)
            self._open.execute(NO_TIME_LIMITS)
        self._connect_secs = time.monotonic() - started
        return OpenInfo(features=FEATURES)

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        """Checks the server's version and whether tables can be created in the schema."""
        connection, schema = self._connection, self._config.schema_name
        if connection.info.server_version < MIN_VERSION:
            found = connection.info.server_version // 10_000
            return ValidationResult(ValidationStatus.FAILED, f"expected Postgres 12 or newer, found {found}")
        with destination_errors():
            may = connection.execute(_MAY_CREATE, [schema]).fetchone()
        if may != (True,):
            user = connection.info.user
            message = f'user {user} can\'t create tables in schema "{schema}"; GRANT CREATE ON SCHEMA to it'
            return ValidationResult(ValidationStatus.WARNING, message)
        return ValidationResult(ValidationStatus.SUCCESS)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    def interrupt(self) -> None:
        """Cancels the running statement."""
        connection = self._open
        if connection is not None and not connection.closed:
            try:
                connection.cancel_safe(timeout=5)
            except psycopg.Error:  # without a connection there is nothing to cancel
                pass

    def landed(self, schema: pa.Schema) -> pa.Schema:
        with destination_errors():
            return landed(schema)

    def describe(self, stream: StreamContext) -> pa.Schema | None:
        with destination_errors():
            table = self._table(stream)
            found = live.describe(self._connection, table.sql)
            return None if found is None else described(found, table.identities(self._connection))

    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:
        table = self._table(stream)
        with destination_errors():
            if live is not None:
                table.check_key(self._connection)
            return [*self._schema_ddl(), *ddl(table, live, wanted)]

    def _schema_ddl(self) -> list[str]:
        name = identifier(self._config.schema_name)
        there = self._connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", [name]).fetchone()
        # Asked first: without the privilege to create schemas, IF NOT EXISTS fails for one that exists, too.
        return [] if there == (True,) else [f"CREATE SCHEMA IF NOT EXISTS {name}"]

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:
        """Fences older runs, runs the statements and creates the staging table. May be repeated."""
        table, connection = self._table(stream), self._connection
        with self._transaction():
            table.marks.end_older(connection, generation)
            for statement in self._schema_ddl():
                connection.execute(statement.encode())
            table.marks.create(connection)
            newest = table.marks.claim(connection, generation)
            if newest > generation:
                raise fenced(stream.stream_name, generation, newest)
            table.marks.end_older(connection, generation)  # those that have begun meanwhile
            for statement in statements:
                connection.execute(statement.encode())
            table.check_key(connection)
            table.live(connection)
            fence = table.marks.fence(connection, "UPDATE")
            if fence is not None and fence[1] >= generation:  # by a run whose number the state has forgotten
                raise fenced(stream.stream_name, generation, fence[1])
            if table.is_staged:
                table.create_stage(connection, generation)
        self._drop_stages(table, generation)

    def _drop_stages(self, table: StreamTable, generation: int) -> None:
        """Drops what earlier runs have left. One that is still in use is left to the next run."""
        found = self._connection.execute(_STAGES, [table.schema, table.stages]).fetchall()
        for (name,) in found:
            number = name.removeprefix(table.stages)
            if not number.isdigit() or int(number) >= generation:
                continue
            try:
                with self._transaction():
                    self._connection.execute("SET LOCAL lock_timeout = '2s'")
                    self._connection.execute(f"DROP TABLE IF EXISTS {qualified(name, table.schema)}".encode())
            except ConnectorError as error:
                self._host.log(LogLevel.WARN, f"the staging table {name} of an earlier run remains: {error.message}")

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:
        table = self._table(stream)
        with destination_errors():
            if not table.marks.exist(self._connection):
                return None
            found = table.marks.read(self._connection, partition)
        if found is None:
            return None
        cursor = None if found.cursor is None else decode(found.cursor.encode(), CursorValue)
        return Watermark(found.generation, found.id, cursor, found.done)

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema) -> str:
        table = self._table(stream)
        with destination_errors():
            if self._config.load != "copy_binary" or live.describe(self._connection, table.sql) is None:
                return ""
            there = find_relation(self._connection, StreamName(table.schema, table.name))
            if not set(wanted.names) <= {column.name for column in there.columns}:
                return ""
            # Rows without a key are found and rejected as Arrow; the table itself would add them again in every run.
            if any(column.nullable for column in there.columns if column.name in table.key):
                return ""
            return relation_kind(there.projected(wanted.names))

    def run_write(self, stream: StreamContext) -> WriteSummary:
        return Writer(self._connection, self._host, self._table(stream), self._config.load, self._connect_secs).run()

    def finish(self, stream: StreamContext, generation: int) -> None:
        table, connection = self._table(stream), self._connection
        if not table.is_staged:
            return
        with self._transaction():
            table.marks.enter(connection, generation)
            fence = table.marks.fence(connection, "UPDATE")
            if fence is None or fence[0] > generation:
                raise fenced(stream.stream_name, generation, fence[0] if fence else 0)
            if fence[1] >= generation:
                return
            publish(connection, table, generation)
            table.marks.finish(connection, generation)

    @property
    def _connection(self) -> Connection:
        if self._open is None:
            raise ConnectorError.internal("NOT_OPEN", "the connector is not open")
        return self._open

    def _table(self, stream: StreamContext) -> StreamTable:
        with destination_errors():
            return StreamTable(self._config, self._host.pipeline, stream)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction whose COMMIT may be lost on its way."""
        connection = self._connection
        with destination_errors():
            connection.execute("BEGIN")
            try:
                yield
            except BaseException:
                if not connection.closed:
                    connection.execute("ROLLBACK")
                raise
            commit(connection)
