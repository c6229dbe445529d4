"""dedup: of equal records within a time only the first."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import LintContext, Partials, ProcessorSpec, Role, Where
from gauss.contracts.time import TimeConfig
from gauss.plugins.processors.lints import needs_format, unknown_fields


class DedupConfig(TimeConfig):
    """Drops duplicates: of equal records within `within` only the first to arrive is emitted, unchanged. A later one is
    emitted again when the watermark has passed the first by `within`; until then it counts as a duplicate."""

    input: RecordIO = RecordIO()
    """The format of the records; needed only for `key` and `event_time_field`."""
    key: Annotated[list[str], Field(min_length=1)] | None = None
    """The key fields, e.g. `["trade_id"]` or a single name. Default: all bytes of the record. Without a schema they are
    compared as JSON text. A record with a missing or null key becomes a dead letter."""
    within: Annotated[Millis, Field(gt=0)]
    """How long after a record its duplicates are dropped, by event time, e.g. `"10m"`."""

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
    summary="drops duplicates within a time",
    config=DedupConfig,
    implementation="gauss.plugins.processors.dedup.transform:Dedup",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    stateful=True,
    partials=Partials.RECORDS,
    state_layout=2,  # 1 had digests by Spark
    keeps_order=False,
    lint=lint,
    example=EXAMPLE,
)
