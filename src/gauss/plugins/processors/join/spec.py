"""join: each record with the row that a table holds for its key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.joined import JoinedConfig
from gauss.plugins.processors.lints import needs_format, unknown_fields


class JoinConfig(JoinedConfig):
    """A stream, a table and the key by which they belong together. A batch sees the table as it was when the batch was
    planned, whole and also when it is repeated; a null key, or one that is neither text nor a whole number, matches
    nothing."""

    input: RecordIO
    """The format in which records are decoded."""
    output: RecordIO | None = None
    """The format in which the result is written; left out: the input's."""
    join_topic: str
    """The table: a memory topic with `mode = "table"`."""
    join_read: Literal["snapshot"] = "snapshot"
    """The table is loaded whole, then kept up with its changes."""
    join_key: str
    """The field of the record that is looked up among the table's keys."""
    join_type: Literal["inner", "left"] = "inner"
    """`inner` drops a record whose key the table does not have; `left` lets it pass with nulls for the table's fields,
    which a record without a schema leaves out."""
    join_fields: Annotated[list[str], Field(min_length=1)] | None = None
    """The fields of the table's rows that are added; left out: all but its key. A field that the record has itself
    stays as it is."""
    join_prefix: Annotated[str, Field(min_length=1)] | None = None
    """Put before the names of the table's fields, so that none meets one of the record's."""


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
    summary="each record with the row that a table holds for its key",
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
