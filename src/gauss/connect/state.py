"""The state of connectors and syncs: values by owner and key, cursors of streams, runs. SQLite or Postgres."""

from __future__ import annotations

import errno
import mmap
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from gauss.connect.state_schema import CURSORS, HISTORY, SCHEMA, VALUES
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.json_form import decode, encode
from gauss.model.errors import ConfigError, DiskFull, Fenced, GaussError, StorageError, Unavailable

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
        self.engine = _engine(address)
        self._address = address
        try:
            SCHEMA.create_all(self.engine)
        except sa.exc.OperationalError as error:
            raise self._unusable(error) from error
        except sa.exc.SQLAlchemyError as error:
            raise StorageError(f"the state store can't be opened: {type(error).__name__}") from error

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Raises DiskFull or Unavailable if the database can't be used for now, StorageError if it fails otherwise."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except sa.exc.IntegrityError:
            raise
        except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError) as error:
            raise self._unusable(error) from error
        except sa.exc.SQLAlchemyError as error:
            raise StorageError(f"the state store failed: {type(error).__name__}") from error

    def _unusable(self, error: sa.exc.SQLAlchemyError) -> GaussError:
        """The error without the statement, whose parameters are values of connectors."""
        cause = getattr(error, "orig", None)
        # SQLite tells a full disk also as a failed operation of the disk.
        if "disk is full" in str(cause) or getattr(cause, "sqlstate", None) == "53100" or _is_full(self._address):
            return _full(self._address)
        return Unavailable(f"the state store does not answer: {type(error).__name__}", hint="check the URL of `state`")

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

    def forget(self, sync: str, stream: str) -> bool:
        """Removes the cursor of a stream, so that it starts again; returns whether there was one."""
        with self.transaction() as connection:
            return bool(connection.execute(CURSORS.delete().where(*_is(CURSORS, sync=sync, stream=stream))).rowcount)

    def history(self, sync: str, stream: str = "") -> list[dict[str, Any]]:
        """The last cursors of a sync, or of one of its streams, the newest first."""
        asked = {"sync": sync, "stream": stream} if stream else {"sync": sync}
        query = sa.select(HISTORY).where(*_is(HISTORY, **asked)).order_by(HISTORY.c.id.desc()).limit(KEPT_CURSORS)
        with self.transaction() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]


def _engine(address: str | Path) -> sa.Engine:
    if isinstance(address, Path):
        try:
            address.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _full(address) from error
            raise StorageError(f"{address.parent} can't be made: {error.strerror}") from error
        engine = sa.create_engine(f"sqlite:///{address}", connect_args={"timeout": 30})
        sa.event.listen(engine, "connect", _durable)
        # A transaction that reads first and then writes would fail, not wait, if another one has written meanwhile.
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine
    scheme, separator, rest = address.partition("://")
    if not separator or scheme not in ("postgresql", "postgres"):
        raise ConfigError("state: expected postgresql://user:password@host:port/database")
    return sa.create_engine(f"postgresql+psycopg://{rest}", pool_pre_ping=True)


def _is_full(address: str | Path) -> bool:
    """Whether the disk of a file has no page left."""
    return isinstance(address, Path) and shutil.disk_usage(address.parent).free < mmap.PAGESIZE


def _full(address: str | Path) -> DiskFull:
    place = str(address) if isinstance(address, Path) else "its database"
    hint = "free some space, then run it again"
    return DiskFull(f"the state can't be written to {place}: the disk is full", hint=hint)


def _durable(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by SQLAlchemy
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


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
