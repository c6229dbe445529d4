"""A Postgres table `people` whose changes are captured, and what became of them."""

from __future__ import annotations

from typing import Any

from gauss.clients.postgres.connect import Connection
from gauss.connect.cursor_edit import set_cursor
from gauss.connect.sync import Sync, SyncResult
from gauss.contracts.connector.cursor import JsonCursor

UPSERT = {"mode": "cdc", "write": "upsert", "key": ["id"]}
APPEND = {"mode": "cdc", "write": "append"}


def create(connection: Connection) -> None:
    connection.execute("DROP SCHEMA IF EXISTS landing CASCADE; DROP TABLE IF EXISTS people CASCADE")
    connection.execute(
        "CREATE TABLE people (id bigint PRIMARY KEY, name text NOT NULL, worth numeric(12, 2), tags text[]);"
        "INSERT INTO people SELECT n, 'person ' || n, n / 4.0, ARRAY['a', n::text] FROM generate_series(1, 500) n"
    )


def drop_replication(connection: Connection) -> None:
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
    for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
        connection.execute(f'DROP PUBLICATION "{name}"'.encode())


def ran(sync: Sync) -> tuple[int, int]:
    """Rows read and written by a run that succeeds."""
    result = sync.run()
    assert result.status == "succeeded", result.error
    (stream,) = result.streams
    return stream.read.records_read, stream.write.records_written


def failed(result: SyncResult, code: str) -> str:
    """The message and the hint of a run that fails with a code."""
    assert result.status == "failed" and result.error is not None
    assert result.error.code == code, result.error
    return f"{result.error.message} ({result.error.hint})"


def reset(sync: Sync, stream: str = "public.people") -> None:
    """What `gauss syncs state reset` does."""
    store = sync.store()
    set_cursor(store, sync.definition, stream, None)
    store.close()


def same(connection: Connection, here: str = "public.people", there: str = "landing.people") -> bool:
    """Whether the table has the rows of its source, each once."""
    first, second = f"SELECT * FROM {here}", f"SELECT * FROM {there}"
    differing = f"({first} EXCEPT ALL {second}) UNION ALL ({second} EXCEPT ALL {first})"
    return connection.execute(differing.encode()).fetchall() == []


def cursor_of(sync: Sync) -> Any:
    store = sync.store()
    found = store.cursor("people", "public.people")
    store.close()
    assert found is not None and isinstance(found.value, JsonCursor)
    return found.value.value


def log_of(connection: Connection, where: str = "true", columns: str = "_op, id, name") -> list[tuple[Any, ...]]:
    """Changes that were appended, in their order."""
    return connection.execute(f"SELECT {columns} FROM landing.people WHERE {where} ORDER BY ctid".encode()).fetchall()


def slots(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots").fetchall()
