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
    """The field with the key: a string or an integer."""
    table: dict[str, dict[str, Scalar]] | None = None
    """The rows, e.g. `{ BTC = { name = "Bitcoin", lot = 0.001 } }`."""
    file: Path | None = None
    """A `.csv` file with a header, or a `.json` file that holds an array of objects; read when the processor starts."""
    file_key: str | None = None
    """The key column of `file`. Default: the last part of `key`."""
    topic: str | None = None
    """A memory topic with `mode = "table"`, joined as by a `left` [join](../joins.md). Existing fields of the record
    are not replaced."""
    fields: Annotated[list[str], Field(min_length=1)] | None = None
    """With `topic`: the fields to add. Default: all but the key."""
    prefix: Annotated[str, Field(min_length=1)] | None = None
    """With `topic`: prefix of the added fields, to avoid conflicts with fields of the record."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Lookup:
        if sum(each is not None for each in (self.table, self.file, self.topic)) != 1:
            raise ValueError("expected one of `table`, `file` and `topic`")
        for key, owner in (("file_key", "file"), ("fields", "topic"), ("prefix", "topic")):
            if getattr(self, key) is not None and getattr(self, owner) is None:
                details = {"key": key, "message": f'"{key}" belongs to `{owner}`'}
                raise PydanticCustomError("lookup", "{message}", details)
        if self.file is not None and self.file.suffix not in (".csv", ".json"):
            raise PydanticCustomError(
                "file_kind", 'expected a .csv or .json file, found "{file}"', {"key": "file", "file": str(self.file)}
            )
        return self


class EnrichConfig(PluginConfig):
    """Adds fields; a field of the record with the same name is replaced."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    add: dict[str, Scalar] = Field(default_factory=dict)
    """Constant fields, e.g. `{ venue = "binance" }`."""
    lookup: Lookup | None = None
    """Fields looked up by key; a missing key gives nulls."""

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
    summary="adds fields to each record: constants, or values looked up in a table or topic",
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
