"""flatten: an array becomes one record per element."""

from __future__ import annotations

from typing import Literal

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format, unknown_fields


class FlattenConfig(PluginConfig):
    """The array to spread: each of its elements becomes a record in which it stands for the array, and which repeats
    all other fields."""

    input: RecordIO
    """The format in which records are decoded."""
    output: RecordIO | None = None
    """The format in which the result is written; left out: the input's, if that has no schema. One with a schema says
    that the field is an array, which an element is not."""
    field: str
    """The field that holds the array, e.g. `items` or `order.items`."""
    empty: Literal["drop", "keep"] = "drop"
    """What becomes of a record whose array is empty, null or missing: no record, or one with null."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and a field that the input format does not have."""
    assert isinstance(config, FlattenConfig)
    if faults := needs_format("flatten", config.input) or unknown_fields("field", [config.field], context):
        return faults
    written = config.output.format if config.output else None
    if context.input_fields is None or written not in (None, config.input.format):
        return []
    return [
        f'output: an element is no array, as which "{config.input.format}" would write it: name a format for the '
        'result, e.g. output = { format = "json" }'
    ]


EXAMPLE = """
[[processors]]
name = "flatten"
plugin = "flatten"
source = { topic = "quotes", read = "offset" }
target = { topic = "items" }
config = { input = { format = "json" }, field = "order.items" }
"""

SPEC = ProcessorSpec(
    name="flatten",
    summary="an array becomes one record per element, with the other fields repeated",
    config=FlattenConfig,
    implementation="gauss.plugins.processors.flatten.transform:Flatten",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    hosted=True,
    lint=lint,
    example=EXAMPLE,
)
