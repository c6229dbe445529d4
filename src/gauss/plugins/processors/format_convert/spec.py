"""format-convert: records of one format become records of another."""

from __future__ import annotations

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format


class FormatConvertConfig(PluginConfig):
    """Two formats, at least one with a schema. Writes the fields of the output schema, or else of the input schema."""

    input: RecordIO
    """The format of the input records. A record with many rows becomes one record per row."""
    output: RecordIO
    """The format of the results. A format with many rows per record gets one record per task."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:  # noqa: ARG001
    """Missing formats, and a conversion that changes nothing."""
    assert isinstance(config, FormatConvertConfig)
    if faults := needs_format("format-convert", config.input):
        return faults
    if config.output.format is None:
        return ['output: format-convert writes records anew, so it needs a format, e.g. output = { format = "avro" }']
    if config.output.format == config.input.format:
        return [f'output: both formats are "{config.output.format}": use passthrough to hand records on']
    return []


EXAMPLE = """
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [{ name = "symbol", type = "string" }, { name = "bid", type = "double" }] }

[[processors]]
name = "format-convert"
plugin = "format-convert"
source = { topic = "quotes", read = "offset" }
target = { topic = "quotes.msgpack" }
config = { input = { format = "quote" }, output = { format = "msgpack" } }
"""

SPEC = ProcessorSpec(
    name="format-convert",
    summary="converts records from one format to another",
    config=FormatConvertConfig,
    implementation="gauss.plugins.processors.format_convert.transform:FormatConvert",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    hosted=True,
    lint=lint,
    example=EXAMPLE,
)
