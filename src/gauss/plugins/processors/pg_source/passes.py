"""The statement of a pass, and the position that is committed with its records."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import psycopg.sql

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.quote import identifier
from gauss.contracts.format import SourceSchema
from gauss.model.errors import ConfigError
from gauss.plugins.formats.pg_binary.live_schema import PgSelection
from gauss.plugins.formats.pg_binary.tuples import reader
from gauss.plugins.formats.pg_binary.walk import PgRowWalk, walk
from gauss.plugins.processors.pg_source.copy_stream import CopyRows
from gauss.plugins.processors.pg_source.spec import PgSourceConfig

CURSOR_TYPES = (
    *("int2", "int4", "int8", "numeric", "text", "varchar", "bpchar", "uuid", "date", "timestamp", "timestamptz"),
)


@dataclass(frozen=True)
class PullPosition:
    """How far a source has read."""

    asked: str
    """Hash of the server, table or query and cursor_field: with others reading starts over."""
    cursor: str | None = None
    """The last cursor value that was read, as text."""
    passes: int = 0
    """Completed passes."""

    @classmethod
    def load(cls, kept: Any, config: PgSourceConfig) -> PullPosition:
        """The committed position, if it belongs to this config; else one before the first row."""
        origin = [config.dsn, config.host, config.port, config.database, config.schema_name, config.table, config.query]
        # Without user and password, which may change, and hashed, since a DSN holds secrets.
        origin[0] = None if config.dsn is None else config.dsn.rpartition("@")[2]
        asked = hashlib.sha256(json.dumps([*origin, config.cursor_field]).encode()).hexdigest()[:16]
        if isinstance(kept, str):  # earlier versions committed it as JSON text
            kept = json.loads(kept)
        found = cls(**kept) if kept else None
        return found if found is not None and found.asked == asked else cls(asked)

    def at(self, cursor: str | None) -> PullPosition:
        return replace(self, cursor=cursor)

    def ended(self) -> PullPosition:
        return replace(self, passes=self.passes + 1)


class CursorColumn:
    """The cursor column in rows of COPY."""

    def __init__(self, schema: SourceSchema, name: str) -> None:
        names = [field.name for field in schema.fields]
        if name not in names:
            raise ConfigError(f"cursor_field: there is no column {name}", hint=f"there are {', '.join(names)}")
        self._index, self._width = names.index(name), len(names)
        self._type = schema.fields[self._index].field_type
        if self._type.name not in CURSOR_TYPES:
            raise ConfigError(
                f"cursor_field: column {name} is {self._type.name}, which does not only grow",
                hint=f"choose a column of one of the types {', '.join(CURSOR_TYPES)}",
            )
        self._read = reader(self._type, name)
        self.name = name

    def _piece(self, row: bytes) -> bytes:
        starts, lengths = [0] * self._width, [0] * self._width
        walk(PgRowWalk(row, [0, len(row)], self._width, starts, lengths, bytearray(1)))
        start = starts[self._index]
        return row[start : start + max(lengths[self._index], 0)]

    def whole(self, rows: CopyRows) -> int:
        """The number of rows before those with the last value, of which more may follow."""
        count = len(rows)
        last = self._piece(rows.row(count - 1))
        while count and self._piece(rows.row(count - 1)) == last:
            count -= 1
        return count

    def value(self, row: bytes) -> str:
        """The value of a row, as text that Postgres can parse."""
        return _text(self._read(self._piece(row)))

    def beyond(self, value: str | None, connection: Connection) -> str:
        """WHERE and ORDER BY that select the unread rows."""
        column = identifier(self.name)
        if value is None:
            return f" WHERE {column} IS NOT NULL ORDER BY {column}"
        literal = psycopg.sql.Literal(value).as_string(connection)
        return f" WHERE {column} > {literal}::{self._type.name} ORDER BY {column}"


def _text(value: Any) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) else str(value)


def statement(asked: PgSelection, schema: SourceSchema) -> str:
    """A SELECT of the columns that the format knows, in their order."""
    columns = ", ".join(identifier(field.name) for field in schema.fields)
    return f"SELECT {columns} FROM {asked.rows}"
