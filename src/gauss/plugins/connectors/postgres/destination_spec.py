"""The `postgres` destination: writes streams to tables of a Postgres server."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self, cast

from pydantic import Field, model_validator

from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.server import PostgresServer, server_of
from gauss.contracts.connector.spec import DestinationSpec
from gauss.plugins.connectors.table_names import check_names


class PostgresDestinationConfig(PostgresServer):
    """Config of a `postgres` destination."""

    schema_name: str = Field(default="public", alias="schema")
    """The schema of the tables; created if it does not exist."""
    load: Literal["copy_binary", "copy", "insert"] = "copy_binary"
    """How rows are sent. `copy` is COPY in text form; `insert` is for servers and poolers without COPY. All give the
    same rows."""
    tables: dict[str, str] = Field(default={})
    """The table of a stream, by its name; other streams land in the table of the last part of their name."""
    embedded_dir: Path | None = None
    """Filled in by a run: where the embedded Postgres is."""

    @model_validator(mode="after")
    def _usable_names(self) -> Self:
        check_names(self.schema_name, self.tables.values(), identifier)
        return self


SPEC = DestinationSpec(
    name="postgres",
    summary="Tables of a Postgres server: append, replace by swap, upsert; exactly once.",
    config=PostgresDestinationConfig,
    implementation="gauss.plugins.connectors.postgres.destination:PostgresDestination",
    system="postgres",
    server=lambda config: server_of(cast(PostgresDestinationConfig, config)),
    writes=frozenset({"append", "replace", "upsert"}),
)
