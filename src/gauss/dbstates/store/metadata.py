"""The metadata of a store: one SQLite database in WAL mode, written by one engine."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gauss.dbstates.store.schema import MIGRATIONS
from gauss.model.errors import DiskFull, StorageError
from gauss.model.files import PRIVATE_FILE

Row = dict[str, Any]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Metadata:
    """One connection, used by all threads in turn."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        path.touch(PRIVATE_FILE)
        with self._sorted_errors():
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
                self._connection.execute(f"PRAGMA {pragma}")
        self._migrate()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything in the block is stored, or nothing."""
        with self._lock, self._sorted_errors():
            nested = self._connection.in_transaction
            if not nested:
                self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if not nested:
                    self._roll_back()
                raise
            if not nested:
                try:
                    self._connection.execute("COMMIT")
                except BaseException:
                    self._roll_back()
                    raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # on a full disk SQLite has done it itself
            self._connection.execute("ROLLBACK")

    def execute(self, statement: str, *values: Any) -> int:
        """Runs a statement; returns the number of changed rows."""
        with self._lock, self._sorted_errors():
            return self._connection.execute(statement, values).rowcount

    def rows(self, query: str, *values: Any) -> list[Row]:
        with self._lock, self._sorted_errors():
            return [dict(row) for row in self._connection.execute(query, values)]

    def row(self, query: str, *values: Any) -> Row | None:
        return next(iter(self.rows(query, *values)), None)

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row; None without rows."""
        found = self.row(query, *values)
        return None if found is None else next(iter(found.values()))

    def insert(self, table: str, **values: Any) -> None:
        marks = ", ".join("?" * len(values))
        self.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())

    def update(self, table: str, where: str, *keys: Any, **values: Any) -> int:
        """Changes columns of the rows that fit; returns how many."""
        changes = ", ".join(f"{name} = ?" for name in values)
        return self.execute(f"UPDATE {table} SET {changes} WHERE {where}", *values.values(), *keys)

    # --- settings and identity ---

    def stored_settings(self) -> dict[str, Any]:
        return {row["path"]: json.loads(row["value"]) for row in self.rows("SELECT * FROM settings ORDER BY path")}

    def identity(self, name: str, made: str) -> str:
        """A value that the store keeps for good, `made` the first time."""
        self.execute("INSERT OR IGNORE INTO identity VALUES (?, ?)", name, made)
        return str(self.value("SELECT value FROM identity WHERE name = ?", name))

    def _migrate(self) -> None:
        done = int(self.value("PRAGMA user_version"))
        if done > len(MIGRATIONS):
            raise StorageError(
                f"the store was written by a newer Gauss (schema {done}, this one knows {len(MIGRATIONS)})",
                hint="upgrade Gauss, or name another store with GAUSS_STATE_STORE",
            )
        for number, (_, statements) in enumerate(MIGRATIONS[done:], done + 1):
            with self.transaction():
                for statement in statements.split(";"):
                    if statement.strip():
                        self.execute(statement)
                self.execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def _sorted_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            if "disk is full" in str(error):
                raise DiskFull("the disk of the store is full", hint="free space; gauss db rm removes states") from None
            raise StorageError(
                f"the metadata of the store can't be used: {error}",
                hint="check the folder and disk of GAUSS_STATE_STORE",
            ) from error


def in_clause(values: Sequence[str]) -> str:
    """`(?, ?)` for as many values."""
    return f"({', '.join('?' * len(values))})"
