"""What a Postgres server has to read: tables and views with their columns, keys and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gauss.clients.postgres.arrow_columns import TYPE_KEY
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.quote import identifier
from gauss.contracts.connector.arrow_types import column_schemas
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import CatalogStream
from gauss.contracts.connector.stream import SyncMode
from gauss.plugins.connectors.postgres.catalog_types import (
    PgTypeRow,
    Reading,
    is_portable,
    reading,
    resolved,
)
from gauss.plugins.connectors.postgres.names import StreamName

CURSOR_TYPES = (
    *("int2", "int4", "int8", "numeric", "text", "varchar", "bpchar", "name", "uuid"),
    *("date", "timestamp", "timestamptz"),
)
"""Base types of columns that can be a cursor."""
COPY_KIND = "pgcopy:"
VIEWS = ("v", "m", "f")
"""Kinds of relations that have no pages of rows here: views, materialized views and foreign tables."""

# Partitions are left out of the catalog: their rows are those of the partitioned table.
_RELATIONS = """
SELECT c.oid, n.nspname, c.relname, c.relkind, greatest(c.reltuples, -1)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {condition}
ORDER BY n.nspname, c.relname
"""
_READABLE = """
n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND NOT c.relispartition
AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
"""
_NAMED = "n.nspname = %s AND c.relname = %s"
_COLUMNS = """
SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod, a.attndims, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       coalesce(l.collisdeterministic, true), has_column_privilege(a.attrelid, a.attnum, 'SELECT')
FROM pg_attribute a LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT i.indrelid, a.attname
FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = ANY(%s) AND i.indisprimary AND k.place <= i.indnkeyatts
ORDER BY i.indrelid, k.place
"""
_TYPES = """
WITH RECURSIVE found AS (
  SELECT t.oid, t.typbasetype, t.typelem FROM pg_type t WHERE t.oid = ANY(%s)
  UNION
  SELECT t.oid, t.typbasetype, t.typelem FROM found f JOIN pg_type t ON t.oid IN (f.typbasetype, f.typelem)
)
SELECT t.oid, t.typname, n.nspname, t.typtype, t.typbasetype, t.typtypmod, t.typndims,
       CASE WHEN e.typarray = t.oid THEN t.typelem ELSE 0 END, coalesce(format_type(t.typbasetype, t.typtypmod), ''),
       t.typdelim::text
FROM found f JOIN pg_type t ON t.oid = f.oid JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_type e ON e.oid = t.typelem
"""


@dataclass(frozen=True)
class Column:
    """A column of a table or view."""

    name: str
    type_text: str
    """As `format_type` writes it; types outside of pg_catalog have their schema."""
    base: str
    """The name of the type in pg_type, without domains."""
    copied: str
    """The type whose binary form COPY sends; empty if it has no meaning in other databases."""
    nullable: bool
    deterministic: bool
    """Whether equal values have equal bytes, as far as the collation goes."""
    reading: Reading

    @property
    def sql(self) -> str:
        """The expression that is read."""
        return f"{identifier(self.name)}{self.reading.cast}"

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.reading.arrow, self.nullable, metadata={TYPE_KEY: self.type_text.encode()})


@dataclass(frozen=True)
class Relation:
    """A table or view, with the columns that the user can read."""

    oid: int
    name: StreamName
    kind: str
    """relkind: `r`, `p`, `v`, `m` or `f`."""
    estimated_rows: int
    """-1: unknown."""
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The primary key."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    def column(self, name: str) -> Column:
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            there = ", ".join(column.name for column in self.columns)
            raise ConnectorError.config(
                "NO_COLUMN",
                f'{self.name} has no column "{name}" that the user can read',
                hint=f"there are {there}" if there else "grant SELECT on its columns",
            )
        return found

    def projected(self, names: Sequence[str] | None) -> Relation:
        """The relation with some of its columns, in the order of the names; None: all. Raises ConnectorError."""
        if names is None:
            return self
        columns = tuple(self.column(name) for name in names)
        return Relation(self.oid, self.name, self.kind, self.estimated_rows, columns, self.key)

    def stream(self) -> CatalogStream:
        """The entry in the catalog."""
        names = [column.name for column in self.columns]
        cursors = [column.name for column in self.columns if column.base in CURSOR_TYPES]
        modes = [SyncMode.FULL_REFRESH, *([SyncMode.INCREMENTAL] if cursors else [])]
        modes += [SyncMode.CDC] if self.kind not in VIEWS else []
        key = list(self.key) if self.key and set(self.key) <= set(names) else None
        rows = self.estimated_rows if self.estimated_rows >= 0 and self.kind not in ("v", "f") else None
        return CatalogStream(str(self.name), column_schemas(self.schema), modes, key, cursors or None, rows)


def copy_kind(columns: Iterable[tuple[str, str]]) -> str:
    """The encoding of binary COPY rows: names of columns and their types, as `format_type` writes them."""
    return COPY_KIND + json.dumps(list(columns), ensure_ascii=False, separators=(",", ":"))


def opaque_kind(relation: Relation) -> str:
    """The encoding of a relation's rows in binary COPY; empty if they mean nothing in other databases."""
    if not all(column.copied for column in relation.columns):
        return ""
    return copy_kind((column.name, column.copied) for column in relation.columns)


def select_rows(relation: Relation, tail: str = "", *, raw: bool = False) -> str:
    """The SELECT of a relation's columns. `raw`: without casts."""
    columns = ", ".join(identifier(column.name) if raw else column.sql for column in relation.columns)
    return f"SELECT {columns} FROM {relation.name.sql}{tail}"


def find_relation(connection: Connection, name: StreamName) -> Relation:
    """A table or view; raises ConnectorError if there is none."""
    found = _relations(connection, _NAMED, list(name))
    if not found:
        raise ConnectorError.config(
            "NO_STREAM",
            f'there is no table or view {name} in database "{connection.info.dbname}"',
            hint="correct the stream (upper and lower case count), or create the table",
        )
    if not found[0].columns:
        raise ConnectorError.permission(
            "NOT_READABLE",
            f'user "{connection.info.user}" can read no column of {name}',
            hint=f"GRANT SELECT ON {name.sql} TO the user, and USAGE on its schema",
        )
    return found[0]


def readable_relations(connection: Connection) -> list[Relation]:
    """All tables and views outside of the system's schemas that the user can read."""
    return [relation for relation in _relations(connection, _READABLE, []) if relation.columns]


def _relations(connection: Connection, condition: str, parameters: list[str]) -> list[Relation]:
    # Types outside of pg_catalog are then written with their schema, whatever the search path is.
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog")
        rows = connection.execute(_RELATIONS.format(condition=condition).encode(), parameters).fetchall()
        oids = [row[0] for row in rows]
        found = connection.execute(_COLUMNS, [oids]).fetchall()
        keys = connection.execute(_KEYS, [oids]).fetchall()
        types = {
            row[0]: PgTypeRow(*row)
            for row in connection.execute(_TYPES, [sorted({column[2] for column in found})]).fetchall()
        }
    columns: dict[int, list[Column]] = {oid: [] for oid in oids}
    key: dict[int, list[str]] = {oid: [] for oid in oids}
    for oid, name in keys:
        key[oid].append(name)
    for oid, *column, readable in found:
        if readable:
            columns[oid].append(_column(types, tuple(column)))
    return [
        Relation(
            oid,
            StreamName(schema, table),
            kind,
            rows_there,
            tuple(columns[oid]),
            tuple(key[oid]),
        )
        for oid, schema, table, kind, rows_there in rows
    ]


def _column(types: dict[int, PgTypeRow], row: tuple[Any, ...]) -> Column:
    name, oid, modifier, dimensions, text, not_null, deterministic = row
    found = resolved(types, oid, modifier, dimensions, text)
    copied = found.text if is_portable(types, found) else ""
    return Column(name, text, found.row.name, copied, not not_null, deterministic, reading(types, found))
