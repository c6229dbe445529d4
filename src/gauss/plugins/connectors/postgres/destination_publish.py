"""The end of a full refresh: makes the rows of the staging table visible in one transaction."""

from __future__ import annotations

import psycopg

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.ddl import names_list
from gauss.clients.postgres.load import merge
from gauss.clients.postgres.quote import identifier, qualified
from gauss.clients.postgres.swap import can_swap, swap
from gauss.clients.postgres.write import PostgresTarget
from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.postgres.destination_table import StreamTable


def publish(connection: Connection, table: StreamTable, generation: int) -> None:
    """Replaces, appends or merges, in the caller's transaction, and drops the staging table.

    A table that a new one can't replace, since a view or a trigger belongs to it, is emptied and filled instead.
    """
    stage = qualified(table.stage(generation), table.schema)
    if connection.execute("SELECT to_regclass(%s)", [stage]).fetchone() == (None,):
        raise ConnectorError.internal(
            "NO_STAGE", f"the staging table {stage} does not exist", hint="start the sync again"
        )
    if not table.key and can_swap(connection, table.sql):
        # Others may still read, but what they wrote from here on would be lost.
        connection.execute(f"LOCK TABLE {table.sql} IN SHARE ROW EXCLUSIVE MODE".encode())
        if (table.replaces or _is_empty(connection, table.sql)) and swap(
            connection, table.schema, table.name, table.stage(generation)
        ):
            return
    if table.replaces:
        _empty(connection, table.sql)
    written = table.marks.columns(connection, generation)
    if names := [each.name for each in table.live(connection).columns if each.name in written]:
        connection.execute(_moving(connection, table, stage, names).encode())
    connection.execute(f"DROP TABLE {stage}".encode())


def _moving(connection: Connection, table: StreamTable, stage: str, names: list[str]) -> str:
    """The statement that moves all rows of the staging table. Columns that the stream lacks keep their values, or get
    their defaults."""
    if not table.key:
        return (
            f"INSERT INTO {table.sql} ({names_list(names)}) OVERRIDING SYSTEM VALUE"
            f" SELECT {names_list(names)} FROM {stage}"
        )
    order = identifier(table.order_column(table.live(connection).columns))
    return merge(PostgresTarget(table.sql, {}, table.key), {name: identifier(name) for name in names}, stage, order)


def _is_empty(connection: Connection, table: str) -> bool:
    return connection.execute(f"SELECT EXISTS (SELECT FROM {table})".encode()).fetchone() == (False,)


def _empty(connection: Connection, table: str) -> None:
    try:
        with connection.transaction():
            connection.execute(f"TRUNCATE {table}".encode())
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege):
        # Foreign keys refer to it, or the user may only delete.
        connection.execute(f"DELETE FROM {table}".encode())
