"""The tables of an embedded ClickHouse, for tests of pipelines: dropped before a case, read after it."""

from __future__ import annotations

from typing import Any

from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.ddl import table_name
from gauss.clients.clickhouse.quote import identifier
from gauss.clients.endpoint import Endpoint
from gauss.contracts.target import TargetSchema


def drop_tables(endpoint: Endpoint) -> None:
    """Drops every table of the database."""
    with connect(endpoint) as client:
        names = client.query("SELECT name FROM system.tables WHERE database = currentDatabase()").result_rows
        for (name,) in names:
            client.command(f"DROP TABLE {identifier(name)} SYNC")


def table_rows(
    endpoint: Endpoint, target: TargetSchema, columns: list[str], *, order_by: str, replaced: bool
) -> list[Any]:
    """The rows of a table; none if there is no table. `replaced`: later rows replace earlier ones."""
    table = table_name(target)
    with connect(endpoint) as client:
        if not client.query(f"EXISTS TABLE {table}").result_rows[0][0]:
            return []
        names = ", ".join(identifier(name) for name in columns)
        final = " FINAL" if replaced else ""
        order = f" ORDER BY {identifier(order_by)}" if order_by else ""
        return list(client.query(f"SELECT {names} FROM {table}{final}{order}").result_rows)
