"""The tables of an embedded Postgres, for tests of pipelines: dropped before a case, read after it."""

from __future__ import annotations

from typing import Any

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import connect
from gauss.clients.postgres.ddl import table_name
from gauss.clients.postgres.quote import identifier
from gauss.contracts.target import TargetSchema


def drop_tables(endpoint: Endpoint) -> None:
    """Drops every table of the database."""
    with connect(endpoint, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def table_rows(
    endpoint: str | Endpoint, target: TargetSchema, columns: list[str], *, order_by: str, replaced: bool
) -> list[Any]:
    """The rows of a table; none if it does not exist. `replaced` has no effect: a key is unique in Postgres."""
    del replaced
    table = table_name(target)
    with connect(endpoint) as connection:
        if connection.execute("SELECT to_regclass(%s)", [table]).fetchall() == [(None,)]:
            return []
        names = ", ".join(identifier(name) for name in columns)
        order = f" ORDER BY {identifier(order_by)}" if order_by else ""
        return connection.execute(f"SELECT {names} FROM {table}{order}".encode()).fetchall()
