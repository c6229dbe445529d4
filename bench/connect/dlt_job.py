"""dlt, in a venv of its own. Arguments: the source's URL, `postgres` or `clickhouse`, the URL of that, a backend, the
tables to copy one after the other. Prints the seconds of the last.

The backend reads: `connectorx`, `pyarrow`, or `adbc`, which is a resource of Arrow batches. Files between are parquet,
which it loads into Postgres by ADBC and into ClickHouse by HTTP.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import dlt  # type: ignore[import-not-found]
from dlt.sources.sql_database import sql_table  # type: ignore[import-not-found]


def statements_by_http() -> None:
    """Lets dlt send its few statements to ClickHouse as it sends the files: the embedded one has no native protocol,
    and knows the encodings of files by their HTTP names only."""
    import clickhouse_driver  # type: ignore[import-not-found]
    from clickhouse_connect import dbapi
    from clickhouse_connect.dbapi.cursor import Cursor
    from clickhouse_driver.dbapi.errors import OperationalError  # type: ignore[import-not-found]
    from dlt.destinations.impl.clickhouse import sql_client  # type: ignore[import-not-found]

    class Translated(Cursor):
        """Raises the errors that dlt knows, which begin with the code of the server."""

        def execute(self, *given: Any, **more: Any) -> None:
            try:
                super().execute(*given, **more)
            except dbapi.Error as error:
                raise OperationalError(str(error).split("server response: ")[-1]) from error

    class Connection(dbapi.connection.Connection):
        def cursor(self) -> Translated:
            return Translated(self.client)

    def connect(dsn: str) -> Connection:
        found = urlsplit(dsn)
        given = {"username": unquote(found.username or ""), "password": unquote(found.password or "")}
        return Connection(host=found.hostname, port=found.port, database=found.path.strip("/"), **given)

    insert = sql_client.clk_insert_file

    def insert_file(*given: Any, compression: str, **more: Any) -> Any:
        return insert(*given, compression={"gz": "gzip"}.get(compression), **more)

    clickhouse_driver.connect, sql_client.clk_insert_file = connect, insert_file


def resource(url: str, backend: str, table: str) -> Any:
    if backend != "adbc":
        return sql_table(credentials=url, table=table, schema="public", backend=backend, chunk_size=100_000)

    @dlt.resource(name=table)  # type: ignore[untyped-decorator]
    def rows() -> Iterator[Any]:
        import adbc_driver_postgresql.dbapi as adbc  # type: ignore[import-not-found]

        with adbc.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            yield from cursor.fetch_record_batch()

    return rows


def copy(url: str, target: str, target_url: str, backend: str, table: str) -> float:
    credentials: Any = target_url
    if target == "clickhouse":
        found = urlsplit(target_url)
        credentials = {"host": found.hostname, "port": found.port, "http_port": found.port, "secure": 0}
        credentials |= {"username": found.username, "password": unquote(found.password or ""), "database": "default"}
    destination = getattr(dlt.destinations, target)(credentials=credentials)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = dlt.pipeline(table, pipelines_dir=folder, destination=destination, dataset_name="landing")
        rows = resource(url, backend, table)
        began = time.perf_counter()
        pipeline.run(rows, write_disposition="append", loader_file_format="parquet")
        return time.perf_counter() - began


def main(url: str, target: str, target_url: str, backend: str, *tables: str) -> None:
    if target == "clickhouse":
        statements_by_http()
    print([copy(url, target, target_url, backend, table) for table in tables][-1])


main(*sys.argv[1:])
