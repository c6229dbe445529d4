"""Tables of the connector's own beside a target table: staging tables, and those that replace it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gauss.clients.clickhouse.errors import sorted_errors
from gauss.clients.clickhouse.quote import literal, qualified
from gauss.model.errors import Unavailable

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

STATEMENT_SECONDS, LOOK_SECONDS = 120.0, 0.05
"""How long to wait for statements of a writer that is gone, and how often to look."""
_TAKEN = "_r"


@dataclass(frozen=True)
class TargetTable:
    """A table that staging tables are published to."""

    database: str
    name: str
    columns: Sequence[str]
    """Those that can be written."""

    @property
    def sql(self) -> str:
        return qualified(self.name, self.database)


def rows_of(client: Client, query: str, **parameters: Any) -> list[Sequence[Any]]:
    """The rows of a small result."""
    with sorted_errors():
        return list(client.query(query, parameters=parameters).result_rows)


def identity(client: Client, database: str, table: str) -> str:
    """Where the data of a table is: the same after a renaming, another for every other table. Empty if there is no
    such table."""
    found = rows_of(
        client,
        "SELECT arrayStringConcat(data_paths, ' ') FROM system.tables"
        " WHERE database = {database:String} AND name = {table:String}",
        database=database,
        table=table,
    )
    return str(found[0][0]) if found else ""


def tables_like(client: Client, database: str, prefix: str) -> list[str]:
    """The names of the tables that begin with a prefix."""
    found = rows_of(
        client,
        "SELECT name FROM system.tables WHERE database = {database:String} AND startsWith(name, {prefix:String})"
        " ORDER BY name",
        database=database,
        prefix=prefix,
    )
    return [name for (name,) in found]


def create_twin(client: Client, target: TargetTable, name: str) -> None:
    """Creates an empty table that is like another one in everything."""
    run(client, f"CREATE TABLE {qualified(name, target.database)} AS {target.sql}")


def attach(client: Client, database: str, source: str, twin: str) -> None:
    """Adds the rows of a table to one that is like it, without copying them."""
    parts = rows_of(
        client,
        "SELECT DISTINCT partition_id FROM system.parts"
        " WHERE active AND database = {database:String} AND table = {table:String}",
        database=database,
        table=source,
    )
    for (partition,) in parts:
        run(
            client,
            f"ALTER TABLE {qualified(twin, database)} ATTACH PARTITION ID {literal(str(partition))}"
            f" FROM {qualified(source, database)}",
        )


def create_stage(client: Client, target: TargetTable, stage: str) -> None:
    """Creates a staging table with the columns and partitions of its target table, but not sorted."""
    ((key,),) = rows_of(
        client,
        "SELECT partition_key FROM system.tables WHERE database = {database:String} AND name = {table:String}",
        database=target.database,
        table=target.name,
    )
    run(
        client,
        f"CREATE TABLE {qualified(stage, target.database)} AS {target.sql} ENGINE = MergeTree"
        f"{f' PARTITION BY {key}' if key else ''} ORDER BY tuple()"
        " SETTINGS enable_block_number_column = 1, non_replicated_deduplication_window = 1000, allow_nullable_key = 1",
    )


def drop_tables(client: Client, database: str, names: Iterable[str]) -> None:
    """Drops tables of any size: the server's limit, 50 GB by default, is against mistakes of people."""
    for name in names:
        run(client, f"DROP TABLE IF EXISTS {qualified(name, database)} SYNC", max_table_size_to_drop=0)


def run(client: Client, statement: str, **settings: Any) -> None:
    with sorted_errors():
        client.command(statement, settings=settings)


def count_rows(client: Client, database: str, tables: Iterable[str]) -> int:
    return sum(rows_of(client, f"SELECT count() FROM {qualified(each, database)}")[0][0] for each in tables)


def take_over(client: Client, database: str, names: Sequence[str]) -> list[str]:
    """Gives the staging tables that still exist new names, which nobody else knows, and waits until nobody uses them by
    their old ones."""
    taken = []
    for name in names:
        for found in tables_like(client, database, name):
            if found != name and not found.startswith(f"{name}{_TAKEN}"):
                continue
            mine = f"{name}{_TAKEN}{uuid.uuid4().hex[:8]}"
            run(client, f"RENAME TABLE {qualified(found, database)} TO {qualified(mine, database)}")
            taken.append(mine)
        if taken:
            wait_for_statements(client, name)
    return taken


def wait_for_statements(client: Client, name: str) -> None:
    """Waits until no statement mentions a name; raises Unavailable."""
    deadline = time.monotonic() + STATEMENT_SECONDS
    while rows_of(
        client,
        "SELECT 1 FROM system.processes WHERE position(query, {name:String}) > 0 AND query_id != queryID()",
        name=name,
    ):
        if time.monotonic() > deadline:
            raise Unavailable(f"a statement of an earlier run still uses {name}", hint="it is retried")
        time.sleep(LOOK_SECONDS)
