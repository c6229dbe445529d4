"""window-join: records of two topics that have the same key and happened at about the same time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.contracts.time import TimeConfig
from gauss.plugins.processors.added_fields import JoinedConfig
from gauss.plugins.processors.lints import needs_format, unknown_fields


class WindowJoinConfig(JoinedConfig, TimeConfig):
    """Joins two streams by key. Every pair within the window is emitted once, in no particular order. A key that is
    null, or neither a string nor an integer, matches nothing. Each topic has its own watermark; the state is bounded by
    the window and the slower topic."""

    input: RecordIO
    """The format of the source records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    join_topic: str
    """The other topic."""
    join_read: Literal["offset"] = "offset"
    """All of its records are read."""
    join_input: RecordIO | None = None
    """The format of the other topic. Default: the input format."""
    join_key: str
    """The key field of both topics."""
    window: Annotated[Millis, Field(gt=0)]
    """Maximum time between two matching records, in either direction, e.g. `"5s"`."""
    join_type: Literal["inner", "left", "right", "full"] = "inner"
    """`left` also emits unmatched records of the source, when the watermark shows that no match can come; `right` those
    of the other topic; `full` both."""
    join_fields: Annotated[list[str], Field(min_length=1)] | None = None
    """The fields of the other topic to add. Default: all but the key. Existing fields of the source record are not
    replaced."""
    join_prefix: Annotated[str, Field(min_length=1)] | None = None
    """Prefix of the other topic's fields, to avoid conflicts with fields of the source."""


def beside(config: PluginConfig) -> list[tuple[tuple[str | int, ...], str]]:
    """The other topic."""
    assert isinstance(config, WindowJoinConfig)
    return [(("join_topic",), config.join_topic)]


SLOT_MS = 1000
"""The shortest slot of a block: with a small window a block still holds more than a few records."""
LONGEST_MS = 60_000
"""With longer windows each batch would read far more blocks than it brings."""


def blocks_ms(config: PluginConfig) -> int:
    """The slot of a block; 0 where records that met none come out, which only Spark's own join knows."""
    assert isinstance(config, WindowJoinConfig)
    in_blocks = config.join_type == "inner" and config.window <= LONGEST_MS
    return max(config.window, SLOT_MS) if in_blocks else 0


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and a key that the input format does not have."""
    assert isinstance(config, WindowJoinConfig)
    return needs_format("window-join", config.input) or unknown_fields("join_key", [config.join_key], context)


EXAMPLE = """
[[processors]]
name = "trade-order-join"
plugin = "window-join"
source = { topic = "trades", read = "offset" }
target = { topic = "matched" }
config = {
    input = { format = "json" },
    output = { format = "json" },
    join_topic = "orders",
    join_read = "offset",
    join_key = "order_id",
    window = "5s",
    join_type = "inner",
}
"""

SPEC = ProcessorSpec(
    name="window-join",
    summary="joins records of two topics with the same key and close event times",
    config=WindowJoinConfig,
    implementation="gauss.plugins.processors.window_join.transform:WindowJoin",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    stateful=True,
    state_layout=2,  # 1 had a row for each record
    keeps_order=False,
    beside=beside,
    blocks_ms=blocks_ms,
    lint=lint,
    example=EXAMPLE,
)
