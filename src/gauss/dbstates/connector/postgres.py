"""What is said to a running Postgres: preparing a snapshot, watching connections."""

from __future__ import annotations

from pathlib import Path

import psycopg

from gauss.dbstates.connector.connected import connected
from gauss.dbstates.runtimes.runtime import Server
from gauss.dbstates.runtimes.waiting import Admin, connect
from gauss.model.errors import StorageError

_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type NOT IN (
    'checkpointer', 'background writer', 'walwriter', 'logical replication launcher', 'startup', 'archiver')
"""
_CLIENTS = """
SELECT count(*) FROM pg_stat_activity
WHERE backend_type IN ('client backend', 'walsender') AND application_name <> 'gauss-engine'
"""


def checkpoint_if_quiet(server: Server, data: Path) -> bool:
    """Writes everything to the data directory, if a snapshot of the running server is then a whole state: no other
    session writes, and there is no unlogged table, which recovery would empty."""
    try:
        with connect(server.socket, server.port) as connection:
            if _count(connection, _OTHERS) or _has_unlogged(data):
                return False
            connection.execute("CHECKPOINT")
            return not _count(connection, _OTHERS)
    except psycopg.Error as error:
        raise StorageError(f"Postgres can't be prepared for a snapshot: {error}", hint="see the log events") from error


def clients(server: Server) -> int:
    """Connections of clients."""
    try:
        with connect(server.socket, server.port) as connection:
            return _count(connection, _CLIENTS)
    except psycopg.Error:  # its slots are taken, it is stopped, a client has forbidden the login, or it has ended
        return connected(server.port)


def outside_folders(data: Path) -> bool:
    """Whether a tablespace lies outside the data directory, where a snapshot does not reach."""
    return any((data / "pg_tblspc").iterdir())


def _count(connection: Admin, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    return int(str(row[0])) if row else 0


def _has_unlogged(data: Path) -> bool:
    """Each unlogged table has a file for its empty form."""
    return any(file.name.endswith("_init") for folder in (data / "base").iterdir() for file in folder.iterdir())
