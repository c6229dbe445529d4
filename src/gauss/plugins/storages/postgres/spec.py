"""The `postgres` storage: a table in the embedded Postgres, or in a server."""

from __future__ import annotations

import re
from typing import cast
from urllib.parse import urlsplit

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import PluginConfig
from gauss.contracts.table import TABLE_READ_MODES, TableConfig, TableSpec, inbox_capacity

PORT = 5432


class PostgresConfig(TableConfig):
    """`storage_config` of a Postgres topic."""

    key: str | list[str] = ""
    """Columns of a primary key: a row replaces the one with the same key; left out: rows are only added."""
    dsn: str | None = None
    """A server as `postgresql://user:password@host/database`; left out, and no `host`: the embedded Postgres."""
    host: str | None = None
    """A server's host, instead of `dsn`."""
    port: int = PORT
    """With `host`."""
    database: str = "postgres"
    """With `host`."""
    user: str = "postgres"
    """With `host`."""
    password: str = ""
    """With `host`; write it as `${NAME}` or `${file:path}`."""

    @model_validator(mode="after")
    def _one_server(self) -> PostgresConfig:
        if self.dsn is not None and self.host is not None:
            raise PydanticCustomError("postgres", "give dsn or host, not both", {"key": "host"})
        return self

    @property
    def keys(self) -> list[str]:
        return ([self.key] if self.key else []) if isinstance(self.key, str) else self.key


def _server(config: PluginConfig) -> tuple[str, int] | None:
    table = cast(PostgresConfig, config)
    if table.dsn is None:
        return None if table.host is None else (table.host, table.port)
    if "://" in table.dsn:
        url = urlsplit(table.dsn)
        return url.hostname or "", url.port or PORT
    words = dict(re.findall(r"(host|port)\s*=\s*'?([^\s']+)", table.dsn))
    return words.get("host", ""), int(words.get("port", PORT))


def _repeats(config: PluginConfig) -> str:
    table = cast(PostgresConfig, config)
    return "" if table.exactly_once or table.keys else "exactly_once is off"


SPEC = TableSpec(
    name="postgres",
    summary="A table in the embedded Postgres or in a server, filled from an inbox in the data directory.",
    config=PostgresConfig,
    implementation="gauss.plugins.storages.inbox:open_inbox",
    writer="gauss.plugins.storages.postgres.table:PostgresTable",
    system="postgres",
    read_modes=lambda _: TABLE_READ_MODES,
    durable=True,
    capacity=inbox_capacity,
    server=_server,
    repeats=_repeats,
)
