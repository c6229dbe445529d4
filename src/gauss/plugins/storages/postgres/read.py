"""Reads a Postgres topic."""

from __future__ import annotations

import pyarrow as pa

from gauss.clients.postgres import ddl, live
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.errors import sorted_errors
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.read import Copied, PostgresSelection, PostgresSql
from gauss.clients.postgres.server import address_of
from gauss.clients.postgres.types import canonical
from gauss.contracts.expression import Kind
from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.table import TablePlace
from gauss.contracts.table_read import READ_SECONDS, Pages, TableColumn, TableReadRequest
from gauss.contracts.target import TargetField, TargetSchema, as_field_type
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.plugins.storages.empty_read import EmptyRead
from gauss.plugins.storages.postgres.spec import PostgresConfig
from gauss.plugins.storages.read_columns import candidate, compared_kinds, time_column

_NAMES = {
    "SMALLINT": "int2", "INTEGER": "int4", "REAL": "float4", "DOUBLE PRECISION": "float8", "BOOLEAN": "bool",
    "TEXT": "text", "VARCHAR": "varchar", "CHAR": "bpchar", "DATE": "date", "BYTEA": "bytea", "UUID": "uuid",
    "JSON": "json", "JSONB": "jsonb", "NUMERIC": "numeric", "DECIMAL": "numeric", "SERIAL": "int4",
}  # fmt: skip
_ELEMENTS = frozenset({"int2", "int4", "int8", "float4", "float8", "bool", "text", "varchar"})


class PostgresReader:
    """Implements `TableReader`. Each read has its own connection and transaction."""

    def __init__(self, config: PostgresConfig, place: TablePlace, source: SourceSchema, target: TargetSchema) -> None:  # noqa: ARG002
        self._config, self._place, self._target = config, place, target
        self.columns = tuple(_column(field) for field in target.fields)
        self._types = {column.name: column.arrow for column in self.columns}
        self.time = time_column(target, self._types)
        self.key = ddl.key_of(target)
        self.attrs = {
            "database": config.database,
            "schema": str(target.attrs.get("schema") or "public"),
            "table": str(target.attrs["table"]),
        }

    def open(self, asked: TableReadRequest) -> Pages:
        connection = self._connect()
        try:
            found = live.describe(connection, ddl.table_name(self._target))
            present = frozenset() if found is None else frozenset(each.name for each in found.columns)
            selection = PostgresSelection(
                ddl.table_name(self._target),
                [column for column in self.columns if column.name in asked.columns],
                present,
                PostgresSql(connection),
                order=self._order(present),
            )
            if asked.times is not None:
                kind = Kind.INT if pa.types.is_integer(self._types[self.time].type) else Kind.OPAQUE
                selection.add_times(self.time, kind, asked.times)
            selection.add_where(asked.where, compared_kinds(self._types))
            if found is None:
                connection.close()
                return EmptyRead(selection.text())
            return Copied(connection, selection)
        except BaseException:
            connection.close()
            raise

    def _order(self, present: frozenset[str]) -> list[str]:
        if self.key and set(self.key) <= present:
            return list(self.key)
        if {INC_COLUMN, OFFSET_COLUMN} <= present:
            return [INC_COLUMN, OFFSET_COLUMN]
        return [self.time] if self.time in present else []

    def rows(self) -> int:
        connection = self._connect()
        try:
            with sorted_errors():
                table = ddl.table_name(self._target)
                found = connection.execute("SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)", [table])
                return max(int(row[0]) if (row := found.fetchone()) is not None else 0, 0)
        finally:
            connection.close()

    def _connect(self) -> Connection:
        connection = connect(address_of(self._config, self._place.directory))
        try:
            with sorted_errors():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(f"SET LOCAL lock_timeout = '{READ_SECONDS}s'".encode())
                connection.execute("SET LOCAL timezone = 'UTC'")
        except BaseException:
            connection.close()
            raise
        return connection


def own_type(field_type: FieldType) -> FieldType:
    """The type's name in Postgres."""
    kind = canonical(field_type)
    if kind.name == "ARRAY":
        return FieldType("array", {"element": own_type(as_field_type(kind.attrs["element"]))})
    if kind.name in ("BIGINT", "BIGSERIAL"):
        return FieldType("int8", {"bits": 64})
    if kind.name == "TIMESTAMP":
        zoned = bool(kind.attrs.get("timezone"))
        rest = {"precision": kind.attrs["precision"]} if "precision" in kind.attrs else {}
        return FieldType("timestamptz" if zoned else "timestamp", rest if zoned else {**rest, "timezone": False})
    known = _NAMES.get(kind.name)
    return FieldType(known, dict(sorted(kind.attrs.items()))) if known else FieldType("text")


def _column(field: TargetField) -> TableColumn:
    own, name = own_type(field.field_type), identifier(field.name)
    general, sql = own, name
    match own.name:
        case "array":
            element = as_field_type(own.attrs["element"])
            sql = f"array_to_json({name})"
            if element.name not in _ELEMENTS:
                general = FieldType("json")
        case "timestamp" | "timestamptz":
            # Infinite timestamps have no number and become null.
            sql = f"CASE WHEN isfinite({name}) THEN (extract(epoch FROM {name}) * 1000000)::bigint END"
        case "date":
            sql = f"CASE WHEN isfinite({name}) THEN {name} - DATE '1970-01-01' END"
        case "numeric" if own.attrs.get("precision", 99) <= 38:
            sql = f"nullif({name}, 'NaN')"
        case "bytea":
            sql = f"encode({name}, 'hex')"
        case "text" | "bpchar" | "uuid" | "json" | "jsonb" | "numeric":
            sql = f"{name}::text"
    arrow = candidate(field.name, general)
    return TableColumn(field.name, own, arrow, sql, hexadecimal=own.name == "bytea")
