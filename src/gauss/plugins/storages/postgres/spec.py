"""The `postgres` storage: a table in the embedded Postgres, or in a server."""

from __future__ import annotations

from typing import ClassVar, cast

from gauss.clients.postgres.server import PostgresServer, server_of
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.table import TABLE_READ_MODES, TableConfig, TableSpec, inbox_capacity


class PostgresConfig(PostgresServer, TableConfig):
    """`storage_config` of a Postgres topic."""

    ABSENT: ClassVar[dict[str, str]] = {
        "ttl": "Postgres deletes no rows by their age: delete them in the database, or drop partitions (partition_by)"
    }

    key: str | list[str] = ""
    """Columns of a primary key: a row replaces the one with the same key; left out: rows are only added."""

    @property
    def keys(self) -> list[str]:
        return ([self.key] if self.key else []) if isinstance(self.key, str) else self.key


def _repeats(config: PluginConfig) -> str:
    table = cast(PostgresConfig, config)
    return "" if table.exactly_once or table.keys else "exactly_once is off"


SPEC = TableSpec(
    name="postgres",
    summary="A table in the embedded Postgres or in a server, filled from an inbox in the data directory.",
    config=PostgresConfig,
    implementation="gauss.plugins.storages.inbox:open_inbox",
    writer="gauss.plugins.storages.postgres.table:PostgresTable",
    reader="gauss.plugins.storages.postgres.read:PostgresReader",
    system="postgres",
    read_modes=lambda _: TABLE_READ_MODES,
    durable=True,
    capacity=inbox_capacity,
    server=lambda config: server_of(cast(PostgresConfig, config)),
    repeats=_repeats,
)
