"""What a pass asks for and where the last one stood: the statement, and the position that is kept with the records."""

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
from gauss.plugins.formats.pg_binary.fast import walk
from gauss.plugins.formats.pg_binary.live import Asked
from gauss.plugins.formats.pg_binary.tuples import reader
from gauss.plugins.processors.pg_source.copying import Rows
from gauss.plugins.processors.pg_source.spec import PgSourceConfig

CURSOR_TYPES = (
    *("int2", "int4", "int8", "numeric", "text", "varchar", "bpchar", "uuid", "date", "timestamp", "timestamptz"),
)


@dataclass(frozen=True)
class Position:
    """Where a source stands."""

    asked: str
    """What it belongs to: with another table, query or cursor_field reading begins anew."""
    cursor: str | None = None
    """The last cursor value that was read, as text."""
    passes: int = 0
    """How many passes were read to their end."""

    @classmethod
    def load(cls, kept: str, config: PgSourceConfig) -> Position:
        origin = [config.dsn, config.host, config.port, config.database, config.schema_name, config.table, config.query]
        # Without user and password, which may change, and hashed, since a DSN holds secrets.
        origin[0] = None if config.dsn is None else config.dsn.rpartition("@")[2]
        asked = hashlib.sha256(json.dumps([*origin, config.cursor_field]).encode()).hexdigest()[:16]
        found = cls(**json.loads(kept)) if kept else None
        return found if found is not None and found.asked == asked else cls(asked)

    def dump(self) -> str:
        return json.dumps(self.__dict__)

    def at(self, cursor: str | None) -> Position:
        return replace(self, cursor=cursor)

    def ended(self) -> Position:
        return replace(self, passes=self.passes + 1)


class Cursor:
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
        starts, lengths, suspects = [0] * self._width, [0] * self._width, [0]
        walk(row, [0, len(row)], self._width, starts, lengths, suspects)
        start = starts[self._index]
        return row[start : start + max(lengths[self._index], 0)]

    def whole(self, rows: Rows) -> int:
        """How many rows come before those with the last value, of which more may follow."""
        count = len(rows)
        last = self._piece(rows.row(count - 1))
        while count and self._piece(rows.row(count - 1)) == last:
            count -= 1
        return count

    def value(self, row: bytes) -> str:
        """The row's value as Postgres reads it."""
        return _text(self._read(self._piece(row)))

    def beyond(self, value: str | None, connection: Connection) -> str:
        """WHERE and ORDER BY for the rows that were not read yet."""
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


def statement(asked: Asked, schema: SourceSchema) -> str:
    """The rows with the columns that the format knows, in their order."""
    columns = ", ".join(identifier(field.name) for field in schema.fields)
    return f"SELECT {columns} FROM {asked.rows}"
