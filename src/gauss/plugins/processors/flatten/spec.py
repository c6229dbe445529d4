"""flatten: an array becomes one record per element."""

from __future__ import annotations

from typing import Literal

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format, unknown_fields


class FlattenConfig(PluginConfig):
    """Turns each element of an array into a record that has the element in place of the array and repeats all other
    fields."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format, if it has no schema (a schema would declare the field as an
    array)."""
    field: str
    """The array field, e.g. `items` or `order.items`."""
    empty: Literal["drop", "keep"] = "drop"
    """The result for an empty, null or missing array: no record, or one with null."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and a field that the input format does not have."""
    assert isinstance(config, FlattenConfig)
    if faults := needs_format("flatten", config.input) or unknown_fields("field", [config.field], context):
        return faults
    written = config.output.format if config.output else None
    if context.input_fields is None or written not in (None, config.input.format):
        return []
    return [
        f'output: an element is not an array, as which "{config.input.format}" would write it: name a format for the '
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
    summary="turns each element of an array into a record, with the other fields repeated",
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
