"""symbol-filter: keeps the records whose field is one of a list."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format, unknown_fields


class SymbolFilterConfig(PluginConfig):
    """Keeps records, unchanged, whose field has one of the listed values."""

    input: RecordIO
    """The format of the input records."""
    field: str = "symbol"
    """The text field to compare; a record without it is dropped."""
    symbols: Annotated[list[str], Field(min_length=1)]
    """The values to keep; the comparison is exact."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and a field that the input format does not have."""
    assert isinstance(config, SymbolFilterConfig)
    return needs_format("symbol-filter", config.input) or unknown_fields("field", [config.field], context)


EXAMPLE = """
[[processors]]
name = "symbol-filter"
plugin = "symbol-filter"
source = { topic = "quotes", read = "offset" }
target = { topic = "quotes.btc" }
config = { input = { format = "json" }, symbols = ["BTCUSD", "BTCEUR"] }
"""

SPEC = ProcessorSpec(
    name="symbol-filter",
    summary="keeps the records whose field has one of the listed values; their bytes pass unchanged",
    config=SymbolFilterConfig,
    implementation="gauss.plugins.processors.symbol_filter.transform:SymbolFilter",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    hosted=True,
    passes_bytes=True,
    lint=lint,
    example=EXAMPLE,
)
