"""filter: keeps the records for which an expression is true."""

from __future__ import annotations

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.model.errors import ConfigError


class FilterConfig(PluginConfig):
    """A condition on each record."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format to which matching records are converted. Default: bytes pass unchanged."""
    where: str
    """A condition such as `.bid > 100 and .symbol == "BTC"`. A missing field is null, and null does not match."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Faults of the expression itself, and fields that the input format does not have."""
    # The grammar's parser is loaded only for a pipeline that has a filter.
    from gauss.scan.program.parse import parse

    assert isinstance(config, FilterConfig)
    try:
        program = parse(config.where)
    except ConfigError as error:
        return [f"where: {error.message}"]
    if config.input.format is None:
        return ['input: filter decodes records, so it needs a format, e.g. input = { format = "json" }']
    if context.input_fields is None:
        return []
    known = {name.removeprefix("$.") for name in context.input_fields}
    return [
        f'where: the input format has no field "{path}" (it has: {", ".join(sorted(known))})'
        for path in program.paths()
        if path not in known
    ]


EXAMPLE = """
[[processors]]
name = "filter"
plugin = "filter"
source = { topic = "quotes", read = "offset" }
target = { topic = "high" }
config = { input = { format = "json" }, where = '.bid > 100 and .symbol == "BTC"' }
"""

SPEC = ProcessorSpec(
    name="filter",
    summary="keeps the records for which `where` is true",
    config=FilterConfig,
    implementation="gauss.plugins.processors.filter.transform:Filter",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    hosted=True,
    passes_bytes=True,
    lint=lint,
    example=EXAMPLE,
)
