"""The filter of a pipeline: a condition of the scan language on each record."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from gauss.config.formats import build_format
from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import FieldType, SourceField
from gauss.fleet.config.model import ConfigModel
from gauss.model.errors import ConfigError
from gauss.scan.program.arrow import compile_filter
from gauss.scan.program.check import check
from gauss.scan.program.kinds import DECODED, schema_kinds
from gauss.scan.program.parse import parse

MOST_CHARACTERS = 16_384


class FiltersConfig(ConfigModel):
    """Which records become rows. The others are read and left out; they are counted, and are no dead letters."""

    enabled: bool = False
    """Whether the filter is used."""
    language: Literal["scan"] = "scan"
    """The language of the expression."""
    expression: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    """A condition such as `.price > 100 and .symbol == "BTC"`. A missing field is null, and null does not match."""

    @model_validator(mode="after")
    def _parses(self) -> Self:
        if self.enabled:
            try:
                check(parse(self.expression))
            except ConfigError as error:
                raise ValueError(error.message) from None
        return self


class Filtered:
    """What a filter says of each record of a batch."""

    def __init__(self, keep: list[bool], bad: list[tuple[int, str, str]]) -> None:
        self.keep = keep
        self.bad = bad
        """(index, reason code, detail) of the records that it can't judge."""


class RecordFilter:
    """A condition on undecoded records of a format."""

    def __init__(self, expression: str, format_name: str, format_config: dict[str, Any]) -> None:
        program = parse(expression)
        self._format = build_format(format_name, format_config)
        schema = self._format.schema()
        if schema is not None:
            known = {field.name.removeprefix("$."): field for field in schema.fields}
            self._typed = check(program, schema_kinds(schema))
            fields = [known[name] for name in program.paths() if name in known]
        else:
            self._typed = check(program)
            fields = [
                SourceField(f"$.{name}" if "." in name else name, FieldType(DECODED[kind]))
                for name, kind in self._typed.kinds.items()
            ]
        self._fields = arrow_schema(fields)

    def judge(self, data: pa.BinaryArray) -> Filtered:
        """Records that can't be decoded, or whose fields have another type than the condition needs, are bad."""
        decoded = self._format.decode_batch(data, self._fields)
        rows = decoded.rows.rename_columns([name.removeprefix("$.") for name in decoded.rows.schema.names])
        if not self._fields:  # a batch without columns has no rows either
            rows = pa.record_batch({"": pa.nulls(len(decoded.good))})
        found = compile_filter(self._typed)(rows).to_pylist()
        keep = [False] * len(data)
        for record, matches in zip(decoded.good.tolist(), found, strict=True):
            keep[record] = bool(matches)
        return Filtered(keep, list(decoded.bad))
