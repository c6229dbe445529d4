"""aggregator: sums, counts and the like, per key and interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import LintContext, Partials, ProcessorSpec, Role, Where
from gauss.contracts.time import TimeConfig
from gauss.plugins.processors.aggregates import Aggregates, aggregates, clashes
from gauss.plugins.processors.lints import needs_format, unknown_fields

BOUNDS = ("window_start", "window_end")


def positive(value: int) -> int:
    """A stretch of time that is none closes nothing."""
    if value <= 0:
        raise ValueError("expected more than 0")
    return value


Stretch = Annotated[Millis, AfterValidator(positive)]


class AggregatorConfig(TimeConfig):
    """What is computed, of which records together."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    group_by: tuple[str, ...] = ()
    """Fields to group by, e.g. `["symbol"]`; a missing field counts as null. Default: one group."""
    aggregates: Aggregates
    """Columns of the result, e.g. `{ volume = "sum(.size)", trades = "count()" }`, using count, sum, min, max, avg,
    first and last. All but first and last ignore null; the sum of no values is null."""
    interval: Stretch
    """Length of an interval, e.g. `1m`; intervals start at multiples of it since 1970. A result has `window_start` and
    `window_end` in ms, and is emitted when the watermark reaches the end of its interval."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Fields that are not there, and columns that would be there twice."""
    assert isinstance(config, AggregatorConfig)
    return needs_format("aggregator", config.input) + lint_fields(config, config.group_by, config.aggregates, context)


def lint_fields(config: TimeConfig, keys: Sequence[str], texts: dict[str, str], context: LintContext) -> list[str]:
    """What aggregator and window have in common."""
    faults = unknown_fields("group_by", [key.removeprefix(".") for key in keys], context)
    faults += unknown_fields("aggregates", [each.field for each in aggregates(texts) if each.field], context)
    if config.event_time_field is not None:
        faults += unknown_fields("event_time_field", [config.event_time_field.removeprefix(".")], context)
    return faults + [f"aggregates: {clash}" for clash in clashes(keys, texts, BOUNDS)]


EXAMPLE = """
[[processors]]
name = "aggregator"
plugin = "aggregator"
source = { topic = "trades", read = "offset" }
target = { topic = "volumes" }
config = { input = { format = "json" }, group_by = ["symbol"], interval = "1m", aggregates = { volume = "sum(.size)" } }
"""

SPEC = ProcessorSpec(
    name="aggregator",
    summary="aggregates per key and interval",
    config=AggregatorConfig,
    implementation="gauss.plugins.processors.aggregator.transform:Aggregator",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    stateful=True,
    partials=Partials.GROUPS,
    lint=lint,
    example=EXAMPLE,
)
