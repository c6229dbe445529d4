"""The `postgres` source: full refresh, also in parts, incremental reads by binary COPY, and change data capture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa

from gauss.clients.postgres.connect import NO_TIME_LIMITS, Connection, connect
from gauss.clients.postgres.server import address_of
from gauss.contracts.connector.emitter import Emitter
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.lifecycle import (
    Catalog,
    ConfigBlob,
    Feature,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import ReadSummary
from gauss.contracts.connector.settings import typed_config
from gauss.contracts.connector.stream import StreamContext, SyncMode
from gauss.plugins.connectors.postgres.catalog import (
    Relation,
    find_relation,
    opaque_kind,
    readable_relations,
    select_rows,
)
from gauss.plugins.connectors.postgres.names import StreamName, parse_stream
from gauss.plugins.connectors.postgres.source_cdc import ChangeCapture
from gauss.plugins.connectors.postgres.source_errors import connector_errors
from gauss.plugins.connectors.postgres.source_identity import CapturedTable, captured
from gauss.plugins.connectors.postgres.source_partitions import Part, begin_part, plan_parts
from gauss.plugins.connectors.postgres.source_position import CursorOrder, Position
from gauss.plugins.connectors.postgres.source_read import Stop, StreamReader
from gauss.plugins.connectors.postgres.source_spec import PostgresSourceConfig
from gauss.plugins.processors.pg_source.copy_stream import copy_rows

OLDEST_VERSION = 12
_SETTINGS = """
SET client_encoding = 'UTF8'; SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601';
SET bytea_output = 'hex'; SET extra_float_digits = 1; SET quote_all_identifiers = off
"""
CANCEL_S = 5.0


class PostgresSource:
    """Implements `Source`, `PartitionedSource` and `OpaqueSource`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = PostgresSourceConfig()
        self._stop = Stop(host)
        self._reading: Connection | None = None
        self._planning: Connection | None = None

    def open(self, context: OpenContext) -> OpenInfo:
        self._config = typed_config(context.config, PostgresSourceConfig)
        return OpenInfo(features=[Feature.CDC])

    def close(self) -> None:
        for connection in (self._reading, self._planning):
            if connection is not None:
                connection.close()
        self._reading = self._planning = None

    def interrupt(self) -> None:
        """Cancels the running query. Called by any thread."""
        self._stop.set()
        if (connection := self._reading) is not None:
            try:
                connection.cancel_safe(timeout=CANCEL_S)
            except psycopg.Error:  # without a connection there is nothing to cancel
                pass

    # --- what there is ---

    def validate(self, config: ConfigBlob) -> ValidationResult:
        """Checks the server and its version, and that the stream of this run and those of `columns` are readable."""
        try:
            checked = typed_config(config, PostgresSourceConfig)
            stream: StreamContext | None = getattr(self._host, "stream", None)
            named = [parse_stream(name) for name in checked.columns]
            named += [parse_stream(stream.stream_name)] if stream is not None and stream.stream_name else []
            with self._connected(checked) as connection:
                for name in dict.fromkeys(named):
                    relation = find_relation(connection, name).projected(checked.projection(name))
                    connection.execute(select_rows(relation, " LIMIT 0").encode())
        except ConnectorError as error:
            if error.retryable:  # it says nothing about the config
                raise
            hint = f" ({error.hint})" if error.hint else ""
            return ValidationResult(ValidationStatus.FAILED, f"{error.message}{hint}")
        return ValidationResult(ValidationStatus.SUCCESS)

    def discover(self) -> Catalog:
        with self._connected() as connection:
            relations = readable_relations(connection)
        return Catalog([each.projected(self._config.projection(each.name)).stream() for each in relations])

    def stream_schema(self, stream: StreamContext) -> pa.Schema:
        """The Arrow schema of a stream's batches, with the Postgres type in the metadata of each field."""
        with self._connected() as connection:
            if stream.sync_mode is SyncMode.CDC:
                return self._captured(connection, stream).relation.schema
            return self._relation(connection, stream).schema

    def opaque_kind(self, stream: StreamContext) -> str:
        if stream.sync_mode is SyncMode.CDC:
            return ""
        with self._connected() as connection:
            relation = self._relation(connection, stream)
        if stream.cursor_info is not None and stream.sync_mode is SyncMode.INCREMENTAL:
            order = CursorOrder.of(relation, stream.cursor_info.cursor_field)
            if any(column.reading.cast for column in order.columns):  # its position can't be read from raw rows
                return ""
        return opaque_kind(relation)

    def partitions(self, stream: StreamContext, count: int) -> list[Any]:
        if stream.sync_mode is not SyncMode.FULL_REFRESH:
            return [None]
        if self._planning is not None:
            self._planning.close()
        with connector_errors():
            # Stays open: the snapshot lives as long as its transaction.
            self._planning = _connect(self._config)
            relation = self._relation(self._planning, stream)
            return plan_parts(self._planning, relation, count, self._config.partition_bytes)

    # --- reading ---

    def run_read(self, stream: StreamContext) -> ReadSummary:
        emitter = Emitter(self._host, stream, self._config.checkpoint)
        try:
            if stream.sync_mode is SyncMode.CDC:
                self._capture(stream, emitter)
            else:
                self._read(stream, emitter)
        except ConnectorError:
            if not self._stop.is_set():
                raise
        if self._stop.is_set() and not self._host.cancelled():
            raise ConnectorError.internal("CANCELLED", "the read was interrupted")
        return emitter.summary()

    def _capture(self, stream: StreamContext, emitter: Emitter) -> None:
        run = ChangeCapture(
            emitter,
            self._stop,
            lambda: _connect(self._config),
            self._watch,
            lambda connection: self._captured(connection, stream),
        )
        with self._connected() as connection:
            run.run(connection, address_of(self._config, self._config.embedded_dir))

    def _captured(self, connection: Connection, stream: StreamContext) -> CapturedTable:
        named = self._config.projection(parse_stream(stream.stream_name)) is not None
        return captured(connection, self._relation(connection, stream), projected=named)

    def _watch(self, connection: Connection | None) -> None:
        self._reading = connection

    def _read(self, stream: StreamContext, emitter: Emitter) -> None:
        with self._connected() as connection:
            relation = self._relation(connection, stream)
            self._must_be_same(relation)
            reader, statements = self._plan(stream, relation, emitter, connection)
        for tail, nulls in statements:
            if self._stop.is_set():
                return
            self._copy(reader, tail, nulls=nulls)
        if not self._stop.is_set():
            reader.finish()

    def _plan(
        self, stream: StreamContext, relation: Relation, emitter: Emitter, connection: Connection
    ) -> tuple[StreamReader, list[tuple[str, bool]]]:
        """The reader, and what follows FROM in its statements; true if the cursor is null in their rows."""
        reader = StreamReader(emitter, relation)
        if stream.sync_mode is SyncMode.FULL_REFRESH:
            part = self._part()
            return reader, [(part.where if part is not None else "", False)]
        if stream.cursor_info is None or not stream.cursor_info.cursor_field:
            raise ConnectorError.config(
                "NO_CURSOR", f"{relation.name} is read incrementally, but has no cursor", hint="set cursor"
            )
        order = CursorOrder.of(relation, stream.cursor_info.cursor_field)
        start = order.loaded(stream.cursor_info)
        reader = StreamReader(emitter, relation, order, start)
        statements = [(order.behind(start or Position(), connection), False)]
        within_nulls = start is None or (start.cursor is None and start.key is not None)
        if within_nulls and order.column.nullable:
            statements.insert(0, (order.nulls_behind(start, connection), True))
        return reader, statements

    def _copy(self, reader: StreamReader, tail: str, *, nulls: bool) -> None:
        """Reads one statement to its end."""
        with self._connected() as connection:
            self._watch(connection)
            try:
                if (part := self._part()) is not None:
                    begin_part(connection, part)
                statement = select_rows(reader.relation, tail, raw=bool(self._host.opaque))
                reader.read(copy_rows(connection, statement, self._stop), nulls=nulls)
                if nulls and not self._stop.is_set():
                    reader.end_of_nulls()
            finally:
                self._watch(None)

    def _part(self) -> Part | None:
        return None if self._host.partition is None else Part.from_json(self._host.partition)

    def _relation(self, connection: Connection, stream: StreamContext) -> Relation:
        name: StreamName = parse_stream(stream.stream_name)
        return find_relation(connection, name).projected(self._config.projection(name))

    def _must_be_same(self, relation: Relation) -> None:
        if self._host.opaque and self._host.opaque != (found := opaque_kind(relation)):
            raise ConnectorError.schema(
                "SCHEMA_CHANGED", f"the columns of {relation.name} have changed: {self._host.opaque} is now {found}"
            )

    @contextmanager
    def _connected(self, config: PostgresSourceConfig | None = None) -> Iterator[Connection]:
        """A connection for one purpose; errors become ConnectorErrors."""
        with connector_errors():
            connection = _connect(config or self._config)
            try:
                yield connection
            finally:
                connection.close()


def _connect(config: PostgresSourceConfig) -> Connection:
    connection = connect(address_of(config, config.embedded_dir), autocommit=True)
    try:
        version = connection.info.server_version // 10_000
        if version < OLDEST_VERSION:
            raise ConnectorError.config(
                "OLD_SERVER", f"Postgres {OLDEST_VERSION} or later is needed, the server has {version}"
            )
        connection.execute(_SETTINGS)
        connection.execute(NO_TIME_LIMITS)
    except BaseException:
        connection.close()
        raise
    return connection
