"""pg-binary: one row of Postgres' COPY BINARY per record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.clients.postgres.server import PostgresServer
from gauss.contracts.format import FieldType
from gauss.contracts.outside import LiveFormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.plugins.formats.fields import TypeConfig, check_distinct


class PgType(TypeConfig):
    """A column's type by Postgres' own name; a plain string is the name alone."""

    TYPES: ClassVar[tuple[str, ...]] = (
        *("int2", "int4", "int8", "float4", "float8", "numeric", "bool", "text", "varchar", "bpchar", "bytea"),
        *("timestamp", "timestamptz", "date", "time", "uuid", "json", "jsonb", "array"),
    )
    ALIASES: ClassVar[dict[str, str]] = {
        "smallint": "int2",
        "integer": "int4",
        "int": "int4",
        "bigint": "int8",
        "real": "float4",
        "double precision": "float8",
        "decimal": "numeric",
        "boolean": "bool",
        "char": "bpchar",
    }

    name: str
    """`int2`, `int4`, `int8`, `float4`, `float8`, `numeric`, `bool`, `text`, `varchar`, `bpchar`, `bytea`,
    `timestamp`, `timestamptz`, `date`, `time`, `uuid`, `json`, `jsonb`, `array`."""
    attrs: dict[str, Any] = Field(default={})
    """numeric: `precision`, `scale` (without them it is kept as text); array: `element`; text: `utf8 = false` for a
    database whose encoding is not UTF-8."""

    def field_type(self) -> FieldType:
        # Postgres counts bytes: its int8 has 64 bits.
        return FieldType("int8", {"bits": 64}) if self.name == "int8" else super().field_type()


class PgField(PluginConfig):
    """A column."""

    name: str
    """Its name."""
    type: PgType
    """Its type: `"int8"`, or `{ name = "numeric", attrs = { precision = 18, scale = 8 } }`."""


class PgBinaryConfig(PostgresServer):
    """Rows of COPY BINARY. Without `fields` the columns are read from the live table or query when the run starts."""

    fields: list[PgField] | None = None
    """The columns of the table or query, in order. Default: read from the server."""
    schema_name: str | None = Field(default=None, alias="schema")
    """The schema of the table, available to schema maps."""
    table: str | None = None
    """The table, available to schema maps. Default, also of `query`: that of the pg-source whose `input` uses this
    format."""
    query: str | None = None
    """A query, instead of a table."""
    embedded_dir: Path | None = None
    """Filled in by a run: where the embedded Postgres is."""
    schema_dir: Path | None = None
    """Filled in by a run: where the columns are kept, so that they are the same for all of it."""

    @model_validator(mode="after")
    def _sound(self) -> PgBinaryConfig:
        if self.fields is not None:
            check_distinct([field.name for field in self.fields])
            if not self.fields:
                raise PydanticCustomError("pg", "pg-binary needs at least one field", {"key": "fields"})
        if self.table is not None and self.query is not None:
            raise PydanticCustomError("pg", "give table or query, not both", {"key": "query"})
        return self


SPEC = LiveFormatSpec(
    name="pg-binary",
    summary="rows of Postgres COPY BINARY, one per record",
    config=PgBinaryConfig,
    implementation="gauss.plugins.formats.pg_binary.codec:PgBinaryFormat",
    system="postgres",
)
