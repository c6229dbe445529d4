"""Reads the columns of a live table or query, with Postgres's type names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauss.clients.postgres import live
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.errors import sorted_errors
from gauss.clients.postgres.quote import qualified
from gauss.clients.postgres.server import PostgresServer, address_of
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.model.errors import ConfigError, NotFound
from gauss.model.files import read_json, write_private
from gauss.plugins.formats.pg_binary.spec import PgType

_TYPE = """
SELECT t.typname, t.typtype, t.typcategory, t.typelem, t.typbasetype, t.typtypmod, format_type(t.oid, NULL)
FROM pg_type t WHERE t.oid = %s
"""
_TEXTS = ("text", "varchar", "bpchar", "json", "jsonb")
_LENGTHS = ("varchar", "bpchar")
_TIMES = ("timestamp", "timestamptz")
MAX_DIGITS = 38


@dataclass(frozen=True)
class PgSelection:
    """A table or a query of one server."""

    server: PostgresServer
    embedded_dir: Path | None
    table: str | None
    schema: str | None
    query: str | None

    @property
    def rows(self) -> str:
        """The operand of FROM."""
        if self.query is not None:
            return f"({self.query.strip().rstrip(';')}) AS q"
        assert self.table is not None
        return qualified(self.table, self.schema or "")

    def connect(self) -> Connection:
        """A connection that sends text as UTF-8."""
        connection = connect(address_of(self.server, self.embedded_dir), autocommit=True)
        with sorted_errors():
            connection.execute("SET client_encoding = 'UTF8'")
        return connection


def cached_schema(asked: PgSelection, schema_dir: Path | None) -> SourceSchema:
    """The schema cached for this run; the first caller requests it from the server."""
    path = None if schema_dir is None else schema_dir / "schema.json"
    found = None if path is None else read_json(path)
    if found is not None:
        return _from_plain(found)
    with asked.connect() as connection:
        schema = describe(connection, asked)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, _plain(schema))
    return schema


def describe(connection: Connection, asked: PgSelection) -> SourceSchema:
    """The schema of the selection; raises NotFound if the table does not exist."""
    attrs: dict[str, Any] = {"database": connection.info.dbname}
    if asked.table is not None and asked.query is None:
        table = live.describe(connection, asked.rows)
        if table is None:
            raise NotFound(
                f"Postgres has no table {asked.rows} in database {connection.info.dbname}",
                hint="create it, or correct table and schema; Gauss retries",
            )
        with sorted_errors():
            named = connection.execute(
                "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.oid = to_regclass(%s)",
                [asked.rows],
            ).fetchone()
        attrs |= {"schema": named[0] if named else "public", "table": asked.table}
        attrs["not_null"] = [column.name for column in table.columns if column.not_null]
        attrs["key"] = list(table.key)
    with sorted_errors():
        cursor = connection.execute(f"SELECT * FROM {asked.rows} LIMIT 0".encode())
        result = cursor.pgresult
        assert result is not None
        columns = [
            ((result.fname(at) or b"").decode(), result.ftype(at), result.fmod(at)) for at in range(result.nfields)
        ]
        raw_text = connection.info.parameter_status("server_encoding") == "SQL_ASCII"
        fields = [
            SourceField(name, _typed(connection, oid, modifier, name, raw_text=raw_text))
            for name, oid, modifier in columns
        ]
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two columns of the query are named {twice[0]}", hint="rename one with AS")
    return SourceSchema(tuple(fields), attrs)


def _typed(connection: Connection, oid: int, modifier: int, column: str, *, raw_text: bool) -> FieldType:
    found = connection.execute(_TYPE, [oid]).fetchone()
    assert found is not None
    name, kind, category, element, base, base_modifier, shown = found
    if kind == "d":  # a domain is sent as its base type
        return _typed(connection, base, base_modifier, column, raw_text=raw_text)
    if category == "A" and element:
        inner = _typed(connection, element, modifier, column, raw_text=raw_text)
        plain = {"name": inner.name, "attrs": inner.attrs} if inner.attrs else inner.name
        return FieldType("array", {"element": plain})
    if kind == "e" or name == "name":  # an enum's values are sent as their labels
        name = "text"
    if name not in PgType.TYPES or name == "array":
        raise ConfigError(
            f"column {column} has the type {shown}, which pg-binary can't read",
            hint=f"use a query that casts it, for example {column}::text",
        )
    return FieldType(name, _attrs(name, modifier, raw_text=raw_text))


def _attrs(name: str, modifier: int, *, raw_text: bool) -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    if name == "int8":
        attrs["bits"] = 64
    elif name == "numeric" and modifier >= 4:
        packed = modifier - 4
        precision, scale = packed >> 16, packed & 0x7FF
        if scale <= precision <= MAX_DIGITS:  # others are read as text, like numeric without a precision
            attrs |= {"precision": precision, "scale": scale}
    elif name in _LENGTHS and modifier >= 4:
        attrs["length"] = modifier - 4
    elif name in _TIMES and modifier >= 0:
        attrs["precision"] = modifier
    if raw_text and name in _TEXTS:
        attrs["utf8"] = False
    return attrs


def _plain(schema: SourceSchema) -> dict[str, Any]:
    fields = [[field.name, field.field_type.name, field.field_type.attrs] for field in schema.fields]
    return {"fields": fields, "attrs": schema.attrs}


def _from_plain(kept: dict[str, Any]) -> SourceSchema:
    fields = tuple(SourceField(name, FieldType(kind, attrs)) for name, kind, attrs in kept["fields"])
    return SourceSchema(fields, kept["attrs"])
