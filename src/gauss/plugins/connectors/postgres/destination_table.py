"""The table of a stream at the destination: its name, columns and DDL, and its staging table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss.clients.postgres.arrow_columns import TYPE_KEY, arrow_of, column_of
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.ddl import column, create_table, names_list
from gauss.clients.postgres.live import LiveColumn, LiveTable, describe
from gauss.clients.postgres.quote import identifier, qualified
from gauss.clients.postgres.types import render_type
from gauss.clients.postgres.watermarks import Watermarks
from gauss.config.sync_rules import last_part
from gauss.contracts.connector.connector import NEEDS_VALUE
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import Replace, StreamContext, SyncMode, Upsert
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.errors import ConfigError
from gauss.plugins.connectors.postgres.destination_spec import PostgresDestinationConfig
from gauss.plugins.connectors.table_names import RESERVED, refuse_reserved

_UNIQUE = """
SELECT array_agg(a.attname::text)
FROM pg_index x CROSS JOIN LATERAL unnest(x.indkey::int2[]) WITH ORDINALITY AS k (number, place)
JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number
WHERE x.indrelid = to_regclass(%s) AND x.indisunique AND x.indisvalid AND x.indimmediate
    AND x.indpred IS NULL AND x.indexprs IS NULL AND k.place <= x.indnkeyatts
GROUP BY x.indexrelid
"""
_IDENTITIES = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attidentity <> '' AND NOT attisdropped
"""


class StreamTable:
    """Where a stream is written."""

    def __init__(self, config: PostgresDestinationConfig, sync: str, stream: StreamContext) -> None:
        self.schema = config.schema_name
        self.name = config.tables.get(stream.stream_name) or last_part(stream.stream_name)
        refuse_reserved(self.name, stream.stream_name)
        self.sql = qualified(self.name, self.schema)
        """The quoted name."""
        self.stream = stream
        mode = stream.write_mode
        self.key = tuple(mode.primary_key) if isinstance(mode, Upsert) else ()
        self.replaces = isinstance(mode, Replace)
        self.is_staged = stream.sync_mode is SyncMode.FULL_REFRESH
        """Whether rows become visible at the end only."""
        if self.replaces and not self.is_staged:
            raise ConnectorError.config(
                "REPLACE_NEEDS_ALL", f"stream {stream.stream_name}: replace needs sync_mode full_refresh"
            )
        self.marks = Watermarks(self.schema, sync, stream.stream_name)

    def stage(self, generation: int) -> str:
        """The name of the staging table of a run."""
        return f"{self.stages}{generation}"

    @property
    def stages(self) -> str:
        """How the names of this stream's staging tables begin."""
        return f"{RESERVED}stage_{self.marks.short}_"

    def live(self, connection: Connection) -> LiveTable:
        """The table; raises ConnectorError if there is none."""
        found = describe(connection, self.sql)
        if found is None:
            raise ConnectorError.schema(
                "NO_TABLE", f"the table {self.sql} does not exist", hint="start the sync again, which creates it"
            )
        return found

    def identities(self, connection: Connection) -> set[str]:
        """The identity columns of the table."""
        return {name for (name,) in connection.execute(_IDENTITIES, [self.sql]).fetchall()}

    def check_key(self, connection: Connection) -> None:
        """Raises ConnectorError if rows can't be upserted by the key."""
        if not self.key:
            return
        found = [set(row[0]) for row in connection.execute(_UNIQUE, [self.sql]).fetchall()]
        if set(self.key) not in found:
            there = "; ".join(", ".join(sorted(each)) for each in found) or "none"
            raise ConnectorError.schema(
                "NO_KEY",
                f"upsert into {self.sql} needs a primary key or unique index on ({', '.join(self.key)}), found {there}",
                hint=f"CREATE UNIQUE INDEX ON {self.sql} ({names_list(self.key)}), or write with append",
            )

    def order_column(self, columns: tuple[LiveColumn, ...]) -> str:
        """The column of a staging table by which the last row of a key is found."""
        name = f"{RESERVED}order"
        while name in {each.name for each in columns}:
            name += "_"
        return name

    def create_stage(self, connection: Connection, generation: int) -> None:
        """Creates the staging table like the table, without its indexes, which are built after the load."""
        found, stage = self.live(connection), qualified(self.stage(generation), self.schema)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {stage}"
            f" (LIKE {self.sql} INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY)".encode()
        )
        # The server makes their values when rows move to the table.
        for name in self.identities(connection):
            connection.execute(f"ALTER TABLE {stage} ALTER COLUMN {identifier(name)} DROP NOT NULL".encode())
        if self.key:
            order = identifier(self.order_column(found.columns))
            connection.execute(
                f"ALTER TABLE {stage} ADD COLUMN IF NOT EXISTS {order} bigint GENERATED ALWAYS AS IDENTITY".encode()
            )


def landed(schema: pa.Schema) -> pa.Schema:
    """The columns of a new table for rows of a schema."""
    fields = []
    for field in schema:
        identifier(field.name)
        made = column_of(field)
        notes = {TYPE_KEY: render_type(made).encode()}
        fields.append(pa.field(field.name, arrow_of(made), field.nullable, metadata=notes))
    return pa.schema(fields)


def described(table: LiveTable, identities: set[str]) -> pa.Schema:
    """The columns of a table that can be written. Those of its primary key count as nullable: a row without a key is
    refused by itself, and the column can't be changed."""
    fields = []
    for each in table.columns:
        if not each.generated:
            is_nullable = not each.not_null or each.name in table.key
            has_value = is_nullable or each.expression or each.name in identities
            notes = None if has_value else NEEDS_VALUE
            fields.append(pa.field(each.name, _arrow(each), is_nullable, metadata=notes))
    return pa.schema(fields)


def _arrow(found: LiveColumn) -> pa.DataType:
    try:
        return arrow_of(found.field_type)
    except ConfigError:  # a type whose name needs more quotes than a stream's columns ever get
        return pa.string()


def ddl(table: StreamTable, there: pa.Schema | None, wanted: pa.Schema) -> list[str]:
    """The statements that make the table have the wanted columns. They may run twice."""
    if there is None:
        attrs: dict[str, Any] = {"schema": table.schema, "table": table.name, "key": table.key}
        fields = tuple(_target(field) for field in wanted)
        return [create_table(TargetSchema(fields, attrs))]
    found = []
    known = {each.name: each for each in there}
    for field in wanted:
        if field.name not in known:
            found.append(f"ALTER TABLE {table.sql} ADD COLUMN IF NOT EXISTS {column(_target(field))}")
        elif field.nullable and not known[field.name].nullable:
            found.append(f"ALTER TABLE {table.sql} ALTER COLUMN {identifier(field.name)} DROP NOT NULL")
    return found


def _target(field: pa.Field) -> TargetField:
    kind: FieldType = column_of(field)
    return TargetField(field.name, kind, field.name, {} if field.nullable else {"not_null": True})
