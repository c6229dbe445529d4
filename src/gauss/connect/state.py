"""The state of connectors and syncs: values by owner and key, cursors of streams, runs. SQLite or Postgres."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.connect.state_schema import CURSORS, HISTORY, SCHEMA, VALUES
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.json_form import decode, encode
from gauss.model.errors import Fenced

EDITED = "edited"
"""Who has stored a cursor, if it was a user."""
KEPT_CURSORS = 100
"""Entries of the history of a stream."""


class StreamCursor(NamedTuple):
    """How far a stream has come."""

    generation: int
    value: CursorValue | None
    checkpoint: int
    at_ms: int

    def json(self) -> Any:
        """Its value as JSON types."""
        return None if self.value is None else self.value.to_json()


class StateStore:
    """State in one database. Thread-safe. Implements `host.StateBackend`."""

    def __init__(self, address: str | Path) -> None:
        """`address`: the file of a SQLite database, or a Postgres URL."""
        self._database = Database(address, name="state store", option="state")
        self.engine = self._database.engine
        self.transaction = self._database.transaction
        with self._database.sorted_errors():
            SCHEMA.create_all(self.engine)

    def close(self) -> None:
        self._database.close()

    # --- values of connectors ---

    def get(self, owner: str, key: str) -> bytes | None:
        with self.transaction() as connection:
            found = connection.execute(sa.select(VALUES.c.value).where(*_is(VALUES, owner=owner, key=key))).scalar()
        return None if found is None else bytes(found)

    def put(self, owner: str, key: str, value: bytes) -> None:
        with self.transaction() as connection:
            if not connection.execute(_update(owner, key, value)).rowcount:
                _insert(connection, owner, key, value)

    def compare_and_set(self, owner: str, key: str, expected: bytes | None, value: bytes) -> bool:
        with self.transaction() as connection:
            if expected is None:
                return _insert(connection, owner, key, value, only=True)
            return bool(connection.execute(_update(owner, key, value).where(VALUES.c.value == expected)).rowcount)

    # --- cursors of streams ---

    def cursor(self, sync: str, stream: str) -> StreamCursor | None:
        with self.transaction() as connection:
            found = connection.execute(sa.select(CURSORS).where(*_is(CURSORS, sync=sync, stream=stream))).first()
        if found is None:
            return None
        return _stream_cursor(found)

    def cursors(self, sync: str) -> dict[str, StreamCursor]:
        """The cursors of all streams of a sync, by stream."""
        query = sa.select(CURSORS).where(*_is(CURSORS, sync=sync)).order_by(CURSORS.c.stream)
        with self.transaction() as connection:
            rows = connection.execute(query).all()
        return {
            row.stream: StreamCursor(row.generation, _cursor(row.cursor), row.checkpoint, row.at_ms) for row in rows
        }

    def move(self, sync: str, stream: str, cursor: StreamCursor, by: str) -> None:
        """Stores how far a stream has come, and adds it to the history. Raises Fenced if a later run has stored one."""
        generation = cursor.generation
        row = {
            "generation": generation,
            "cursor": _text(cursor.value),
            "checkpoint": cursor.checkpoint,
            "at_ms": cursor.at_ms,
        }
        where = _is(CURSORS, sync=sync, stream=stream)
        with self.transaction() as connection:
            known = connection.execute(sa.select(CURSORS.c.generation).where(*where).with_for_update()).scalar()
            if known is not None and known > generation:
                raise Fenced(f'stream "{stream}" of sync "{sync}" belongs to a later run (generation {known})')
            if known is None:
                connection.execute(CURSORS.insert().values(sync=sync, stream=stream, **row))
            else:
                connection.execute(CURSORS.update().where(*where).values(**row))
            connection.execute(HISTORY.insert().values(sync=sync, stream=stream, by=by, **row))
            connection.execute(HISTORY.delete().where(HISTORY.c.id.in_(_old(sync, stream))))

    def is_edited(self, sync: str, stream: str) -> bool:
        """Whether a user has set the cursor of a stream since a run has stored one."""
        by = sa.select(HISTORY.c.by).where(*_is(HISTORY, sync=sync, stream=stream)).order_by(HISTORY.c.id.desc())
        with self.transaction() as connection:
            return connection.execute(by.limit(1)).scalar() == EDITED


def _now() -> int:
    return time.time_ns() // 1_000_000


def _is(table: sa.Table, **values: str) -> list[Any]:
    return [table.c[name] == value for name, value in values.items()]


def _update(owner: str, key: str, value: bytes) -> sa.Update:
    return VALUES.update().where(*_is(VALUES, owner=owner, key=key)).values(value=value, at_ms=_now())


def _insert(connection: sa.Connection, owner: str, key: str, value: bytes, *, only: bool = False) -> bool:
    """Adds a value. If another writer has added one: with `only` returns False, else replaces that."""
    try:
        with connection.begin_nested():
            connection.execute(VALUES.insert().values(owner=owner, key=key, value=value, at_ms=_now()))
    except sa.exc.IntegrityError:
        return not only and bool(connection.execute(_update(owner, key, value)).rowcount)
    return True


def _old(sync: str, stream: str) -> sa.Select[tuple[int]]:
    """The entries of the history beyond KEPT_CURSORS."""
    where = _is(HISTORY, sync=sync, stream=stream)
    return sa.select(HISTORY.c.id).where(*where).order_by(HISTORY.c.id.desc()).offset(KEPT_CURSORS).limit(1_000)


def _stream_cursor(row: Any) -> StreamCursor:
    return StreamCursor(row.generation, _cursor(row.cursor), row.checkpoint, row.at_ms)


def _text(value: CursorValue | None) -> str | None:
    return None if value is None else encode(value).decode()


def _cursor(text: str | None) -> CursorValue | None:
    return None if text is None else decode(text.encode(), CursorValue)
