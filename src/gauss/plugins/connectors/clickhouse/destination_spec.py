"""The `clickhouse` destination: writes streams to tables of a ClickHouse server."""

from __future__ import annotations

from typing import Self, cast

from pydantic import Field, model_validator

from gauss.clients.clickhouse.quote import identifier
from gauss.clients.clickhouse.server import ClickHouseServer, database_of, server_of
from gauss.contracts.connector.spec import DestinationSpec
from gauss.plugins.connectors.table_names import check_names


class ClickHouseDestinationConfig(ClickHouseServer):
    """Config of a `clickhouse` destination."""

    schema_name: str | None = Field(default=None, alias="schema")
    """The database of the tables; created if it does not exist. Default: that of the `dsn`, or `default`."""
    tables: dict[str, str] = Field(default={})
    """The table of a stream, by its name; other streams land in the table of the last part of their name."""

    @property
    def target_database(self) -> str:
        return self.schema_name or database_of(self)

    @model_validator(mode="after")
    def _usable_names(self) -> Self:
        check_names(self.schema_name, self.tables.values(), identifier)
        return self


SPEC = DestinationSpec(
    name="clickhouse",
    summary="Tables of a ClickHouse server: append, replace by exchange, upsert; exactly once.",
    config=ClickHouseDestinationConfig,
    implementation="gauss.plugins.connectors.clickhouse.destination:ClickHouseDestination",
    system="clickhouse",
    server=lambda config: server_of(cast(ClickHouseDestinationConfig, config)),
    writes=frozenset({"append", "replace", "upsert"}),
)
