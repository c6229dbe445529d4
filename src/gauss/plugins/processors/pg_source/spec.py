"""pg-source: reads a Postgres table or query into a topic, one record in the format of COPY BINARY per row."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.clients.postgres.server import PostgresServer, server_of
from gauss.contracts.io import RecordIO
from gauss.contracts.outside import PullSpec
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import Role, Where


class PgSourceConfig(PostgresServer):
    """Config of a pg-source."""

    table: str | None = None
    """The table to read."""
    schema_name: str | None = Field(default=None, alias="schema")
    """The table's schema; default: found by the server's search path."""
    query: str | None = None
    """A SELECT to read, instead of a table."""
    cursor_field: str | None = None
    """A column whose values only grow, such as an id. Rows are read in its order, from the last value that was read on,
    and each row is read exactly once, also after a crash. Rows in which it is null are not read."""
    every: Annotated[Millis, Field(gt=0)] | None = None
    """The pause between the end of a pass and the next one; default: one pass, then `done`."""
    input: RecordIO = RecordIO()
    """`format`: a pg-binary format, which takes its columns from the table or query."""

    @model_validator(mode="after")
    def _one_origin(self) -> PgSourceConfig:
        if (self.table is None) == (self.query is None):
            raise PydanticCustomError("pg", "give either a table or a query", {"key": "table"})
        if self.query is not None and self.schema_name is not None:
            raise PydanticCustomError("pg", "schema goes with table; a query names its own", {"key": "schema"})
        return self


def _repeats(config: PluginConfig) -> str:
    source = cast(PgSourceConfig, config)
    if source.cursor_field is not None:
        return ""
    if source.every is not None:
        return "every pass reads all rows again (set cursor_field to read only new rows)"
    return "an interrupted pass starts over (set cursor_field to resume it)"


def _losses(config: PluginConfig) -> str:
    source = cast(PgSourceConfig, config)
    if source.cursor_field is None or source.every is None:
        return ""
    return f"misses rows that are committed after a larger {source.cursor_field} has been read"


def _tells(config: PluginConfig) -> dict[str, Any]:
    source = cast(PgSourceConfig, config)
    keys = {*PostgresServer.model_fields, "table", "schema_name", "query"} & source.model_fields_set
    return {"schema" if key == "schema_name" else key: getattr(source, key) for key in keys}


EXAMPLE = """
[[processors]]
name = "pg"
plugin = "pg-source"
target = { topic = "quotes" }
config = { table = "quotes", cursor_field = "id", every = "30s" }
"""

SPEC = PullSpec(
    name="pg-source",
    summary="Reads the rows of a Postgres table or query into a topic.",
    config=PgSourceConfig,
    implementation="gauss.plugins.processors.pg_source.edge:PgSource",
    role=Role.SOURCE,
    where=Where.ENGINE,
    active=True,
    stateful=True,
    example=EXAMPLE,
    system="postgres",
    server=lambda config: server_of(cast(PgSourceConfig, config)),
    repeats=_repeats,
    losses=_losses,
    tells=_tells,
)
