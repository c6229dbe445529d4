"""enrich: adds fields to each record, the same to all or found by a key."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format, unknown_fields

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr


class Lookup(PluginConfig):
    """Rows by key: either `table` or `file`."""

    key: str
    """The field of the record that is looked up: text or a whole number."""
    table: dict[str, dict[str, Scalar]] | None = None
    """The rows themselves, e.g. `{ BTC = { name = "Bitcoin", lot = 0.001 } }`."""
    file: Path | None = None
    """A `.csv` file with a header, or a `.json` file that holds an array of objects; read when the processor starts."""
    file_key: str | None = None
    """The column of `file` that holds the key; left out: the last part of `key`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Lookup:
        if (self.table is None) == (self.file is None):
            raise ValueError("expected either `table` or `file`")
        if self.file_key is not None and self.file is None:
            raise PydanticCustomError("file_key", '"file_key" belongs to `file`', {"key": "file_key"})
        if self.file is not None and self.file.suffix not in (".csv", ".json"):
            raise PydanticCustomError(
                "file_kind", 'expected a .csv or .json file, found "{file}"', {"key": "file", "file": str(self.file)}
            )
        return self


class EnrichConfig(PluginConfig):
    """What is added; a field of the record that has the same name is replaced."""

    input: RecordIO
    """The format in which records are decoded."""
    output: RecordIO | None = None
    """The format in which the result is written; left out: the input's."""
    add: dict[str, Scalar] = Field(default_factory=dict)
    """Fields that are the same in every record, e.g. `{ venue = "binance" }`."""
    lookup: Lookup | None = None
    """Fields that a table holds for the record's key; a key that is not there gives nulls. To look up in a topic, use
    a join."""

    @model_validator(mode="after")
    def _something(self) -> EnrichConfig:
        if not self.add and self.lookup is None:
            raise ValueError("expected `add`, `lookup` or both")
        return self


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and a key that the input format does not have."""
    assert isinstance(config, EnrichConfig)
    keys = [config.lookup.key] if config.lookup else []
    return needs_format("enrich", config.input) or unknown_fields("lookup", keys, context)


EXAMPLE = """
[[processors]]
name = "enrich"
plugin = "enrich"
source = { topic = "quotes", read = "offset" }
target = { topic = "enriched" }
config = {
    input = { format = "json" },
    add = { venue = "binance" },
    lookup = { key = "symbol", table = { BTC = { name = "Bitcoin", lot = 0.001 }, ETH = { name = "Ether" } } },
}
"""

SPEC = ProcessorSpec(
    name="enrich",
    summary="adds fields to each record: constants, or what a table holds for its key",
    config=EnrichConfig,
    implementation="gauss.plugins.processors.enrich.transform:Enrich",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=False,
    hosted=True,
    lint=lint,
    example=EXAMPLE,
)
