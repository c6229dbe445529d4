"""A Postgres table `people`, and syncs that copy it."""

from __future__ import annotations

from gauss.clients.postgres.connect import Connection
from gauss.connect.sync import SyncResult

CREATE = (
    "DROP SCHEMA IF EXISTS landing CASCADE; DROP TABLE IF EXISTS people; CREATE TABLE people"
    " (id bigint PRIMARY KEY, name text NOT NULL, born date, data jsonb, worth numeric(12, 2));"
    "INSERT INTO people SELECT n, 'person ' || n, '2000-01-01'::date + n, jsonb_build_object('n', n), n / 4.0"
    " FROM generate_series(1, {rows}) n; ANALYZE people"
)


def create(connection: Connection, rows: int = 1000) -> None:
    connection.execute(CREATE.format(rows=rows).encode())


def succeeded(result: SyncResult) -> SyncResult:
    assert result.status == "succeeded", result.error
    return result


def same(connection: Connection, table: str = "landing.people") -> bool:
    """Whether the table has the rows of its source, each once."""
    here, there = "SELECT * FROM people", f"SELECT * FROM {table}"
    differing = f"({here} EXCEPT ALL {there}) UNION ALL ({there} EXCEPT ALL {here})"
    return connection.execute(differing.encode()).fetchall() == []
