"""A SQL database that holds Gauss's own state: a SQLite file of one machine, or Postgres for many."""

from __future__ import annotations

import errno
import mmap
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gauss.model.errors import ConfigError, DiskFull, GaussError, StorageError, Unavailable
from gauss.model.files import PRIVATE_FILE

BUSY_SECONDS = 30.0
"""How long a statement waits for other processes that use a SQLite file."""
_LOOK_SECONDS = 0.01
_PRIMARY = 0xFF
"""The part of an error code of SQLite that names its kind; the rest says where it occurred, such as during recovery."""
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL)
"""Errors while other connections open the same file. The second one comes if a lock of the log is not free for long."""


class Database:
    """One database. Thread-safe."""

    def __init__(self, address: str | Path, *, name: str, option: str, **pool: Any) -> None:
        """`address`: the file of a SQLite database, or a Postgres URL. `name` and `option`: what errors call it, and
        the option that holds the address. `pool`: arguments of SQLAlchemy's engine."""
        self._address, self._name, self._option = address, name, option
        self.engine = _engine(address, option, pool)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Raises DiskFull or Unavailable if the database can't be used for now, StorageError if it fails otherwise."""
        with self.sorted_errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def sorted_errors(self) -> Iterator[None]:
        """Converts errors of the database, but not those of its constraints."""
        try:
            yield
        except sa.exc.IntegrityError:
            raise
        except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError) as error:
            raise self._unusable(error) from error
        except sa.exc.SQLAlchemyError as error:
            if getattr(getattr(error, "orig", None), "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                raise StorageError(f"{self._address} is no SQLite database", hint="name another file") from error
            raise StorageError(f"the {self._name} failed: {type(error).__name__}") from error

    def _unusable(self, error: sa.exc.SQLAlchemyError) -> GaussError:
        """The error without the statement, whose parameters may be secrets."""
        cause = getattr(error, "orig", None)
        # SQLite tells a full disk also as a failed operation of the disk.
        if "disk is full" in str(cause) or getattr(cause, "sqlstate", None) == "53100" or _is_full(self._address):
            return _full(self._address, self._name)
        code = getattr(cause, "sqlite_errorname", None)
        what = f"{type(error).__name__} ({code})" if code else type(error).__name__
        hint = f"check the URL of `{self._option}`"
        return Unavailable(f"the {self._name} does not answer: {what}", hint=hint)


def _engine(address: str | Path, option: str, pool: dict[str, Any]) -> sa.Engine:
    if isinstance(address, Path):
        if address.is_dir():
            raise ConfigError(f"{option}: {address} is a folder, expected the file of a SQLite database")
        try:
            address.parent.mkdir(parents=True, exist_ok=True)
            address.touch(PRIVATE_FILE)  # its log and its shared memory get the same mode
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _full(address, option) from error
            raise StorageError(f"{address.parent} can't be made: {error.strerror}") from error
        engine = sa.create_engine(f"sqlite:///{address}", connect_args={"timeout": BUSY_SECONDS})
        sa.event.listen(engine, "connect", _durable)
        # A transaction that reads first and then writes would fail, not wait, if another one has written meanwhile.
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine
    scheme, separator, rest = address.partition("://")
    if not separator or scheme not in ("postgresql", "postgres"):
        raise ConfigError(f"{option}: expected postgresql://user:password@host:port/database")
    return sa.create_engine(f"postgresql+psycopg://{rest}", **{"pool_pre_ping": True, **pool})


def _is_full(address: str | Path) -> bool:
    """Whether the disk of a file has no page left."""
    return isinstance(address, Path) and shutil.disk_usage(address.parent).free < mmap.PAGESIZE


def _full(address: str | Path, name: str) -> DiskFull:
    place = str(address) if isinstance(address, Path) else "its database"
    hint = "free some space, then run it again"
    return DiskFull(f"the {name.removesuffix(' store')} can't be written to {place}: the disk is full", hint=hint)


def _durable(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by SQLAlchemy
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turns on write-ahead logging. While other connections do so too, SQLite fails at once instead of waiting."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)
