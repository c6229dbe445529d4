"""join: each record with the row that a table holds for its key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.added_fields import JoinedConfig
from gauss.plugins.processors.lints import needs_format, unknown_fields


class JoinConfig(JoinedConfig):
    """Joins a stream with a table by key. All records of a batch see the version of the table at which the batch was
    planned, also if it is retried. A key that is null, or neither a string nor an integer, matches nothing."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    join_topic: str
    """The table: a memory topic with `mode = "table"`."""
    join_read: Literal["snapshot"] = "snapshot"
    """Loads the whole table, then its changes."""
    join_key: str
    """The field of the record with the key."""
    join_type: Literal["inner", "left"] = "inner"
    """For a key that is not in the table, `inner` drops the record and `left` passes it with nulls for the table's
    fields (omitted without a schema)."""
    join_fields: Annotated[list[str], Field(min_length=1)] | None = None
    """The fields of the table to add. Default: all but the key. Existing fields of the record are not replaced."""
    join_prefix: Annotated[str, Field(min_length=1)] | None = None
    """Prefix of the table's fields, to avoid conflicts with fields of the record."""


def tables(config: PluginConfig) -> list[tuple[tuple[str | int, ...], str]]:
    """The one table."""
    assert isinstance(config, JoinConfig)
    return [(("join_topic",), config.join_topic)]


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and a key that the input format does not have."""
    assert isinstance(config, JoinConfig)
    return needs_format("join", config.input) or unknown_fields("join_key", [config.join_key], context)


EXAMPLE = """
[[topics]]
name = "instruments"
storage = "memory"
storage_config = { mode = "table", format = "json", key_field = "symbol" }

[[processors]]
name = "enrich-quotes"
plugin = "join"
source = { topic = "quotes.raw", read = "offset" }
target = { topic = "quotes.enriched" }
config = {
    input = { format = "json" },
    output = { format = "json" },
    join_topic = "instruments",
    join_read = "snapshot",
    join_key = "symbol",
    join_type = "left",
}
"""

SPEC = ProcessorSpec(
    name="join",
    summary="joins each record with the row of its key in a table",
    config=JoinConfig,
    implementation="gauss.plugins.processors.join.transform:Join",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    hosted=True,
    tables=tables,
    lint=lint,
    example=EXAMPLE,
)
