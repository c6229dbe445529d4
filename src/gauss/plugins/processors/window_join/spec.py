"""window-join: records of two topics that have the same key and happened at about the same time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.contracts.time import TimeConfig
from gauss.plugins.processors.joined import JoinedConfig
from gauss.plugins.processors.lints import needs_format, unknown_fields


class WindowJoinConfig(JoinedConfig, TimeConfig):
    """Two streams and the key by which their records belong together. Every pair within the window comes out once,
    in no certain order; a null key, or one that is neither text nor a whole number, matches nothing. Each topic has a
    watermark of its own, and what is kept of both is bounded by the window and the slower one."""

    input: RecordIO
    """The format in which records of the source are decoded."""
    output: RecordIO | None = None
    """The format in which the result is written; left out: the input's."""
    join_topic: str
    """The other topic."""
    join_read: Literal["offset"] = "offset"
    """All of its records are read."""
    join_input: RecordIO | None = None
    """The format in which its records are decoded; left out: the input's."""
    join_key: str
    """The field that records of both topics must have in common."""
    window: Annotated[Millis, Field(gt=0)]
    """How far apart two records may be, either way, e.g. `"5s"`."""
    join_type: Literal["inner", "left", "right", "full"] = "inner"
    """`left`: records of the source that met none come out too, once the watermark says that none will come; `right`:
    those of the other topic; `full`: both."""
    join_fields: Annotated[list[str], Field(min_length=1)] | None = None
    """The fields of the other topic's records that are added; left out: all but the key. A field that the source's
    record has itself stays as it is."""
    join_prefix: Annotated[str, Field(min_length=1)] | None = None
    """Put before the names of the other topic's fields, so that none meets one of the source's."""


def beside(config: PluginConfig) -> list[tuple[tuple[str | int, ...], str]]:
    """The other topic."""
    assert isinstance(config, WindowJoinConfig)
    return [(("join_topic",), config.join_topic)]


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
    summary="records of two topics with the same key that happened at about the same time",
    config=WindowJoinConfig,
    implementation="gauss.plugins.processors.window_join.transform:WindowJoin",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    stateful=True,
    state_layout=2,  # 1 had a row for each record
    keeps_order=False,
    beside=beside,
    lint=lint,
    example=EXAMPLE,
)
