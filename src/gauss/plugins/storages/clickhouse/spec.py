"""The `clickhouse` storage: a table in the embedded ClickHouse, or in a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.clients.clickhouse.known import engine_fault
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.table import TABLE_READ_MODES, TableConfig, TableSpec, inbox_capacity

MERGING = ("Summing", "Aggregating", "Collapsing")
"""Engines that make other rows of the inserted ones."""


class ClickHouseConfig(TableConfig):
    """`storage_config` of a ClickHouse topic."""

    host: str | None = None
    """Host of the server. Default: the embedded ClickHouse."""
    port: int = 0
    """Port of the server; 0 for 8123, or 8443 with `secure`."""
    database: str = "default"
    """The database of the table."""
    user: str = "default"
    """The user."""
    password: str = ""
    """The password; use `${NAME}` or `${file:path}`."""
    secure: bool = False
    """TLS."""
    verify: bool = True
    """Whether the server's certificate must be valid."""
    ca_file: Path | None = None
    """With `secure`: the authority that signed the server's certificate, as a PEM file. Default: those of the
    system."""
    ttl: str | None = None
    """When rows are deleted, as an expression of the table's columns: `toDateTime(ts_ms / 1000) + INTERVAL 30 DAY`;
    the same as `ttl` in `schema`. Default: never."""
    async_insert: bool = False
    """Lets the server batch inserts. Delivery is then at least once, because such inserts are not deduplicated."""

    def encryption_hint(self) -> str:
        """What to add if nothing says whether the connection is encrypted."""
        if "secure" in self.model_fields_set:
            return ""
        return "set secure = true (port 8443), or secure = false if the network can be trusted"

    @property
    def engine(self) -> str:
        return str(self.table_schema.get("engine") or "MergeTree")

    @property
    def replacing(self) -> bool:
        return "Replacing" in self.engine

    @property
    def merging(self) -> bool:
        return any(word in self.engine for word in MERGING)

    @property
    def attrs(self) -> dict[str, Any]:
        """What `schema` and `ttl` say of the table."""
        return self.table_schema if self.ttl is None else {**self.table_schema, "ttl": self.ttl}

    @model_validator(mode="after")
    def _has_an_engine(self) -> ClickHouseConfig:
        if fault := engine_fault(self.engine):
            raise PydanticCustomError("engine", "{message}", {"message": f"engine: {fault}", "key": "schema"})
        return self

    @model_validator(mode="after")
    def _has_one_ttl(self) -> ClickHouseConfig:
        told = ""
        if self.ttl is not None and "ttl" in self.table_schema:
            told = '"ttl" stands here and in "schema": keep one of them'
        elif self.ttl is not None and re.fullmatch(r"[\d.]+\s*\w*", self.ttl.strip()):
            example = "toDateTime(ts_ms / 1000) + INTERVAL 30 DAY"
            told = f'"ttl" is an expression of the table\'s columns, e.g. "{example}" (found "{self.ttl}")'
        if told:
            raise PydanticCustomError("ttl", "{message}", {"message": told, "key": "ttl"})
        return self

    @model_validator(mode="after")
    def _has_a_key(self) -> ClickHouseConfig:
        if (self.replacing or self.merging) and not self.table_schema.get("order_by") and self.schema_map is None:
            message = f"{self.engine} without order_by would merge all rows into one: name the columns of its key"
            raise PydanticCustomError("order_by", "{message}", {"message": message, "key": "schema"})
        return self


def _server(config: PluginConfig) -> tuple[str, int] | None:
    table = cast(ClickHouseConfig, config)
    return None if table.host is None else (table.host, table.port or (8443 if table.secure else 8123))


def _repeats(config: PluginConfig) -> str:
    table = cast(ClickHouseConfig, config)
    if table.async_insert:
        return "async_insert is not deduplicated"
    return "" if table.exactly_once else "exactly_once is off"


def _losses(config: PluginConfig) -> str:
    if not cast(ClickHouseConfig, config).merging:
        return ""
    return "may miss a batch when ClickHouse is killed in mid-insert, since merged rows can't be read back"


SPEC = TableSpec(
    name="clickhouse",
    summary="A table in the embedded ClickHouse or on a server, written from an inbox in the data directory.",
    config=ClickHouseConfig,
    implementation="gauss.plugins.storages.inbox:open_inbox",
    writer="gauss.plugins.storages.clickhouse.table:ClickHouseTable",
    reader="gauss.plugins.storages.clickhouse.read:ClickHouseReader",
    system="clickhouse",
    read_modes=lambda _: TABLE_READ_MODES,
    durable=True,
    capacity=inbox_capacity,
    server=_server,
    repeats=_repeats,
    losses=_losses,
)
