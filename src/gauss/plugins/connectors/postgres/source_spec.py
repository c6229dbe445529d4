"""The `postgres` source: reads tables and views of a Postgres server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self, cast

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.clients.postgres.server import PostgresServer, server_of
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.settings import CheckpointThresholds
from gauss.contracts.connector.spec import SourceSpec
from gauss.contracts.plugin import Bytes
from gauss.plugins.connectors.postgres.names import StreamName, parse_stream


class PostgresSourceConfig(PostgresServer):
    """Config of a `postgres` source."""

    checkpoint: CheckpointThresholds = CheckpointThresholds()
    """When a checkpoint is made: `{ bytes, rows, secs }`."""
    columns: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default={})
    """The columns to read, by stream: `{ "public.users" = ["id", "name"] }`. Streams that are not named here are read
    with all columns."""
    partition_bytes: Annotated[Bytes, Field(gt=0)] = 16 << 20
    """Minimum size of the parts in which a table is read in parallel."""
    embedded_dir: Path | None = None
    """Filled in by a run: where the embedded Postgres is."""

    @model_validator(mode="after")
    def _readable_columns(self) -> Self:
        for stream, names in self.columns.items():
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise PydanticCustomError("postgres", f"{stream}: column {twice[0]} is named twice", {"key": "columns"})
            try:
                parse_stream(stream)
            except ConnectorError as error:
                raise PydanticCustomError("postgres", error.message, {"key": "columns"}) from None
        return self

    def projection(self, stream: StreamName) -> list[str] | None:
        """The columns to read of a stream; None for all."""
        return next((names for name, names in self.columns.items() if parse_stream(name) == stream), None)


SPEC = SourceSpec(
    name="postgres",
    summary="Tables and views of a Postgres server: full refresh, incremental by a cursor column, or CDC.",
    config=PostgresSourceConfig,
    implementation="gauss.plugins.connectors.postgres.source:PostgresSource",
    system="postgres",
    server=lambda config: server_of(cast(PostgresSourceConfig, config)),
)
