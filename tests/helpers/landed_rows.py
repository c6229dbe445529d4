"""What a sync has written to a server."""

from __future__ import annotations

from gauss.clients.postgres.connect import connect
from helpers import clickhouse_kit


def landed_ids(url: str, table: str) -> list[int]:
    """The ids in a table of a Postgres or ClickHouse server, in order."""
    if url.startswith("postgresql"):
        with connect(url) as connection:
            return [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY id".encode())]
    return sorted(clickhouse_kit.verify({"dsn": url}, table).column("id").to_pylist())
