"""dedup: of equal records within a time only the first."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.contracts.time import TimeConfig
from gauss.plugins.processors.lints import needs_format, unknown_fields


class DedupConfig(TimeConfig):
    """Which records are equal, and for how long one is remembered. Of equal records the one that arrived first comes
    out, as it came. One that happened `within` after it, or later, comes out again as soon as the watermark has passed
    that time; until then it counts as a repetition."""

    input: RecordIO = RecordIO()
    """The format in which the key is decoded; needed for `key` and `event_time_field` only."""
    key: Annotated[list[str], Field(min_length=1)] | None = None
    """The fields that make records equal, e.g. `["trade_id"]` or a single name; left out: all of a record's bytes.
    Without a schema they are compared as JSON text. A record that lacks one of them, or has null there, is a dead
    letter."""
    within: Annotated[Millis, Field(gt=0)]
    """How long after a record equal ones are dropped, by event time, e.g. `"10m"`: so long it is kept in mind."""

    @field_validator("key", mode="before")
    @classmethod
    def _one_name(cls, key: object) -> object:
        return [key] if isinstance(key, str) else key


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and keys that the input format does not have."""
    assert isinstance(config, DedupConfig)
    names = [*(config.key or ()), *([config.event_time_field] if config.event_time_field else [])]
    missing = needs_format("dedup", config.input) if names else []
    return missing or unknown_fields("key", config.key or (), context)


EXAMPLE = """
[[processors]]
name = "dedup"
plugin = "dedup"
source = { topic = "trades.raw", read = "offset" }
target = { topic = "trades" }
config = { input = { format = "json" }, key = ["trade_id"], within = "10m", event_time_field = "ts" }
"""

SPEC = ProcessorSpec(
    name="dedup",
    summary="of equal records within a time only the first",
    config=DedupConfig,
    implementation="gauss.plugins.processors.dedup.transform:Dedup",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    stateful=True,
    state_layout=2,  # 1 had digests by Spark
    keeps_order=False,
    lint=lint,
    example=EXAMPLE,
)
