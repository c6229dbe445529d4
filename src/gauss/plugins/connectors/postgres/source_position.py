"""Positions of incremental reads: rows are read in the order of the cursor column, then of the primary key.

With a primary key beside the cursor, a position is JSON, `{"field", "type", "cursor", "key"}` with values as text.
Without one, or if the cursor is the primary key, it is the typed value of the cursor, and lies only between different
values; rows that come later with the value of the last one are not read.

Rows whose cursor is null are read once, before all others in the first run. The position behind them is `null`, or JSON
with `"cursor": null` and no key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg.sql
import pyarrow as pa

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.quote import identifier
from gauss.contracts.connector.cursor import (
    CursorInfo,
    CursorValue,
    DecimalCursor,
    Int64Cursor,
    JsonCursor,
    NullCursor,
    TimestampMicrosCursor,
    TimestampMillisCursor,
    Utf8Cursor,
)
from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.postgres.catalog import CURSOR_TYPES, Column, Relation
from gauss.plugins.connectors.postgres.source_decode import Y2K_DAYS

DAY_MS = 86_400_000
_TIMES = ("timestamp", "timestamptz")
_INTEGERS = ("int2", "int4", "int8")
_TEXTS = ("text", "varchar", "bpchar", "name", "uuid")


@dataclass(frozen=True)
class Position:
    """How far a stream is read."""

    cursor: str | None = None
    """The cursor's last value as text; None: in or behind the rows in which it is null."""
    key: tuple[str, ...] | None = None
    """The last row's key as text; None: behind all rows with that cursor."""


@dataclass(frozen=True)
class CursorOrder:
    """The order in which an incremental stream is read."""

    relation: str
    column: Column
    ties: tuple[Column, ...] = field(default=())
    """Columns of the primary key beside the cursor."""

    @classmethod
    def of(cls, relation: Relation, name: str) -> CursorOrder:
        """The order by a cursor column; raises ConnectorError."""
        column = relation.column(name)
        if column.base not in CURSOR_TYPES:
            raise ConnectorError.config(
                "BAD_CURSOR",
                f'{relation.name}: column "{name}" is {column.type_text}, which can\'t be a cursor',
                hint=f"choose a column that only grows, of a type {', '.join(CURSOR_TYPES)}",
            )
        there = {each.name: each for each in relation.columns}
        key = [there[each] for each in relation.key if each in there and there[each].reading.kind != "list"]
        # A part of the key orders nothing.
        whole = len(key) == len(relation.key)
        return cls(str(relation.name), column, tuple(each for each in key if each.name != name) if whole else ())

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that make a position."""
        return (self.column, *self.ties)

    # --- statements ---

    @property
    def _sql(self) -> str:
        """The cursor in comparisons. A collation in which different texts are equal would put a position between them,
        where there is no key."""
        name = identifier(self.column.name)
        return name if self.column.deterministic or self.ties else f'{name} COLLATE "C"'

    def behind(self, position: Position, connection: Connection) -> str:
        """WHERE and ORDER BY that select what is behind a position, with rows whose cursor is not null."""
        order = ", ".join([self._sql, *(identifier(each.name) for each in self.ties)])
        if position.cursor is None:
            return f" WHERE {identifier(self.column.name)} IS NOT NULL ORDER BY {order}"
        value = _literal(position.cursor, self.column, connection)
        if position.key is None or not self.ties:
            return f" WHERE {self._sql} > {value} ORDER BY {order}"
        values = ", ".join([value, *self._key_literals(position.key, connection)])
        return f" WHERE ({order}) > ({values}) ORDER BY {order}"

    def nulls_behind(self, position: Position | None, connection: Connection) -> str:
        """WHERE and ORDER BY for the rows whose cursor is null."""
        where = f" WHERE {identifier(self.column.name)} IS NULL"
        if not self.ties:
            return where
        order = ", ".join(identifier(each.name) for each in self.ties)
        if position is not None and position.key is not None:
            where += f" AND ({order}) > ({', '.join(self._key_literals(position.key, connection))})"
        return f"{where} ORDER BY {order}"

    def _key_literals(self, key: Sequence[str], connection: Connection) -> list[str]:
        return [_literal(value, column, connection) for value, column in zip(key, self.ties, strict=True)]

    # --- positions ---

    def at(self, row: Mapping[str, pa.Scalar]) -> Position:
        """The position of a row."""
        key = tuple(value_text(row[each.name]) or "" for each in self.ties) if self.ties else None
        return Position(value_text(row[self.column.name]), key)

    def same_cursor(self, left: pa.Scalar, right: pa.Scalar) -> bool:
        """Whether Postgres takes two cursors for equal."""
        if self.column.base == "numeric":
            return Decimal(left.as_py()) == Decimal(right.as_py())
        if self.column.base == "bpchar":  # spaces at the end count for nothing
            return bool((left.as_py() or "").rstrip(" ") == (right.as_py() or "").rstrip(" "))
        return bool(left.equals(right))

    def stored(self, position: Position) -> CursorValue:
        """The position as a cursor."""
        if self.ties:
            return JsonCursor(
                {
                    "field": self.column.name,
                    "type": self.column.type_text,
                    "cursor": position.cursor,
                    "key": None if position.key is None else self._named(position.key),
                }
            )
        text, base = position.cursor, self.column.base
        if text is None:
            return NullCursor()
        if base in _INTEGERS:
            return Int64Cursor(int(text))
        if base in _TIMES:
            return TimestampMicrosCursor(micros_of(text))
        if base == "date":
            return TimestampMillisCursor(micros_of(f"{text} 00:00:00") // 1_000)
        if base == "numeric":
            return DecimalCursor(text, len(text.partition(".")[2]))
        return Utf8Cursor(text)

    def _named(self, key: Sequence[str]) -> dict[str, str]:
        return dict(zip((each.name for each in self.ties), key, strict=True))

    def loaded(self, info: CursorInfo) -> Position | None:
        """Where the last run ended; None before the first. Raises ConnectorError for a cursor of other columns."""
        last, base = info.last_value, self.column.base
        match last:
            case None:
                return None
            case NullCursor():
                return Position()
            case JsonCursor():
                return self._loaded_json(last.value)
            case Int64Cursor() if base in _INTEGERS or base == "numeric":
                return Position(str(last.value))
            case TimestampMicrosCursor() if base in _TIMES:
                return Position(time_text(last.value))
            case TimestampMillisCursor() if base in _TIMES:
                return Position(time_text(last.value * 1_000))
            case TimestampMillisCursor() if base == "date":
                return Position(date_text(last.value // DAY_MS))
            case DecimalCursor() if base == "numeric":
                return Position(last.value)
            case Utf8Cursor() if base in _TEXTS:
                return Position(last.value)
        raise self._changed(f"a cursor of type {last.TAG}")

    def _loaded_json(self, value: Any) -> Position:
        given = value if isinstance(value, dict) else {}
        if given.keys() != {"field", "type", "cursor", "key"} or given["field"] != self.column.name:
            raise self._changed("a cursor of another column")
        if given["type"] != self.column.type_text:
            raise self._changed(f"a cursor of type {given['type']}")
        key = given["key"]
        if key is None:
            return Position(given["cursor"])
        if not isinstance(key, dict) or list(key) != [each.name for each in self.ties]:
            raise self._changed(f"a position within the primary key ({', '.join(key)})")
        return Position(given["cursor"], tuple(key.values()))

    def _changed(self, found: str) -> ConnectorError:
        ties = "".join(f", {each.name}" for each in self.ties)
        return ConnectorError.schema(
            "CURSOR_CHANGED",
            f"{self.relation}: expected a cursor of {self.column.name} ({self.column.type_text}{ties}), found {found}",
            hint="the table or the config has changed since; reset the state of the stream, which reads it anew",
        )


def _literal(value: str, column: Column, connection: Connection) -> str:
    return f"{psycopg.sql.Literal(value).as_string(connection)}::{column.type_text}"


def value_text(value: pa.Scalar) -> str | None:
    """A value as text that Postgres reads as the same value; None for null."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return time_text(value.value)
    if pa.types.is_date(value.type):
        return date_text(value.value)
    plain = value.as_py()
    if isinstance(plain, bytes):
        return f"\\x{plain.hex()}"
    if isinstance(plain, Decimal):
        return format(plain, "f")
    if pa.types.is_float32(value.type):
        return str(np.float32(plain))
    return str(plain)


def date_text(days: int) -> str:
    """Days since 1970 as Postgres writes a date; a year before Christ ends in BC."""
    return _with_era(np.datetime_as_string(np.datetime64(days, "D")))


def time_text(micros: int) -> str:
    """Microseconds since 1970 as Postgres writes a timestamp, in UTC."""
    return _with_era(np.datetime_as_string(np.datetime64(micros, "us")).replace("T", " "))


def special_text(piece: bytes, kind: str) -> str | None:
    """A value without an Arrow value, in the binary form of COPY, as text that Postgres reads as the same value; None
    if there is none."""
    number = int.from_bytes(piece, "big", signed=True)
    if kind in ("timestamp", "date") and number in (largest := 2 ** (8 * len(piece) - 1) - 1, -largest - 1):
        return "infinity" if number > 0 else "-infinity"
    if kind == "timestamp":  # of a year that Arrow does not have
        days, micros = divmod(number, DAY_MS * 1_000)
        return f"{date_text(days + Y2K_DAYS)} {time_text(micros).split()[1]}"
    return {"time": "24:00:00", "numeric": "NaN"}.get(kind)


def _with_era(text: str) -> str:
    negative = text.startswith("-")
    year, rest = text.lstrip("+-").split("-", 1)
    number = -int(year) if negative else int(year)
    return f"{1 - number:04d}-{rest} BC" if number < 1 else f"{number:04d}-{rest}"


def micros_of(text: str) -> int:
    """The inverse of `time_text`."""
    plain = text.removesuffix(" BC")
    year, rest = plain.split("-", 1)
    number = 1 - int(year) if plain != text else int(year)
    # numpy reads years of four digits, and 400 years have a whole number of days.
    cycles, within = divmod(number, 400)
    moment = np.datetime64(f"{within + 2000:04d}-{rest.replace(' ', 'T')}", "us").astype(np.int64)
    return int(moment) + (cycles - 5) * 146_097 * DAY_MS * 1_000
