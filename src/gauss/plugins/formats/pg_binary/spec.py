"""pg-binary: one row of Postgres' COPY BINARY per record."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.format import FieldType, FormatSpec
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


class PgBinaryConfig(PluginConfig):
    """Rows as COPY BINARY writes them: a count of columns, then each one's length and bytes."""

    fields: list[PgField]
    """The columns of the table or query, in their order."""
    database: str | None = None
    """Told to schema maps."""
    schema_name: str | None = Field(default=None, alias="schema")
    """Told to schema maps."""
    table: str | None = None
    """Told to schema maps."""

    @model_validator(mode="after")
    def _distinct(self) -> PgBinaryConfig:
        check_distinct([field.name for field in self.fields])
        if not self.fields:
            raise PydanticCustomError("pg", "pg-binary needs at least one field", {"key": "fields"})
        return self


SPEC = FormatSpec(
    name="pg-binary",
    summary="rows of Postgres' binary COPY, one per record",
    config=PgBinaryConfig,
    implementation="gauss.plugins.formats.pg_binary.codec:PgBinaryFormat",
)
