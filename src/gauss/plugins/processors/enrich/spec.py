"""enrich: adds fields to each record, the same to all or found by a key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format, unknown_fields

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr


class Lookup(PluginConfig):
    """Rows by key: `table`, `file` or `topic`."""

    key: str
    """The field of the record that is looked up: text or a whole number."""
    table: dict[str, dict[str, Scalar]] | None = None
    """The rows themselves, e.g. `{ BTC = { name = "Bitcoin", lot = 0.001 } }`."""
    file: Path | None = None
    """A `.csv` file with a header, or a `.json` file that holds an array of objects; read when the processor starts."""
    file_key: str | None = None
    """The column of `file` that holds the key; left out: the last part of `key`."""
    topic: str | None = None
    """A memory topic with `mode = "table"`: the newest row of each key, as a [join](../joins.md) of `left` sees it. A
    field that the record has itself stays as it is."""
    fields: Annotated[list[str], Field(min_length=1)] | None = None
    """With `topic`: the fields of its rows that are added; left out: all but its key."""
    prefix: Annotated[str, Field(min_length=1)] | None = None
    """With `topic`: put before the names of the fields that are added, so that none meets one of the record's."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Lookup:
        if sum(each is not None for each in (self.table, self.file, self.topic)) != 1:
            raise ValueError("expected one of `table`, `file` and `topic`")
        for key, owner in (("file_key", "file"), ("fields", "topic"), ("prefix", "topic")):
            if getattr(self, key) is not None and getattr(self, owner) is None:
                told = {"key": key, "message": f'"{key}" belongs to `{owner}`'}
                raise PydanticCustomError("lookup", "{message}", told)
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
    """Fields that a table holds for the record's key; a key that is not there gives nulls."""

    @model_validator(mode="after")
    def _something(self) -> EnrichConfig:
        if not self.add and self.lookup is None:
            raise ValueError("expected `add`, `lookup` or both")
        return self


def tables(config: PluginConfig) -> list[tuple[tuple[str | int, ...], str]]:
    """The topic that is looked up in, if there is one."""
    assert isinstance(config, EnrichConfig)
    if config.lookup is None or config.lookup.topic is None:
        return []
    return [(("lookup", "topic"), config.lookup.topic)]


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
    summary="adds fields to each record: constants, or what a table or a topic holds for its key",
    config=EnrichConfig,
    implementation="gauss.plugins.processors.enrich.transform:enrich",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=False,
    hosted=True,
    tables=tables,
    lint=lint,
    example=EXAMPLE,
)
