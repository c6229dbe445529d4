"""The tables of a case: emptied before it, read after it."""

from __future__ import annotations

from typing import Any

from gauss.clients.endpoint import Endpoint
from gauss.contracts.table import INC_COLUMN, OFFSET_COLUMN
from gauss.stream.flowtest.records import Found
from gauss.stream.tables import TableTopic


def emptied(system: str, endpoint: Endpoint) -> None:
    """Takes away whatever an earlier case has left."""
    if system == "clickhouse":
        from gauss.clients.clickhouse.connect import connect
        from gauss.clients.clickhouse.quote import identifier

        with connect(endpoint) as client:
            names = client.query("SELECT name FROM system.tables WHERE database = currentDatabase()").result_rows
            for (name,) in names:
                client.command(f"DROP TABLE {identifier(name)} SYNC")
        return
    from gauss.clients.postgres.connect import connect as connect_postgres

    with connect_postgres(endpoint, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def table_rows(topic: TableTopic, system: str, endpoint: Endpoint) -> list[Found]:
    """The rows of a topic's table by its mapped columns; none while there is no table."""
    names = [field.name for field in topic.target.fields if field.name not in (INC_COLUMN, OFFSET_COLUMN)]
    rows = (
        _from_clickhouse(topic, endpoint, names) if system == "clickhouse" else _from_postgres(topic, endpoint, names)
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _from_clickhouse(topic: TableTopic, endpoint: Endpoint, names: list[str]) -> list[Any]:
    from gauss.clients.clickhouse import ddl
    from gauss.clients.clickhouse.connect import connect
    from gauss.clients.clickhouse.quote import identifier

    table = ddl.table_name(topic.target)
    final = " FINAL" if topic.store.ordered else ""
    with connect(endpoint) as client:
        if not client.query(f"EXISTS TABLE {table}").result_rows[0][0]:
            return []
        columns = ", ".join(identifier(name) for name in names)
        order = f" ORDER BY {OFFSET_COLUMN}" if _marked(topic) else ""
        return list(client.query(f"SELECT {columns} FROM {table}{final}{order}").result_rows)


def _from_postgres(topic: TableTopic, endpoint: Endpoint, names: list[str]) -> list[Any]:
    from gauss.clients.postgres import ddl
    from gauss.clients.postgres.connect import connect
    from gauss.clients.postgres.quote import identifier

    table = ddl.table_name(topic.target)
    with connect(endpoint) as connection:
        if connection.execute("SELECT to_regclass(%s)", [table]).fetchall() == [(None,)]:
            return []
        columns = ", ".join(identifier(name) for name in names)
        order = f" ORDER BY {OFFSET_COLUMN}" if _marked(topic) else ""
        return connection.execute(f"SELECT {columns} FROM {table}{order}".encode()).fetchall()


def _marked(topic: TableTopic) -> bool:
    """Whether rows can be put into the order in which their records came."""
    return any(field.name == OFFSET_COLUMN for field in topic.target.fields)
