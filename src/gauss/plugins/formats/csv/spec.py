"""csv: one line per record."""

from __future__ import annotations

from pydantic import field_validator, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.plugins.formats.fields import TypeConfig, check_distinct


class CsvField(PluginConfig):
    """A column."""

    name: str
    """Its name."""
    type: TypeConfig = TypeConfig(name="string")
    """Its type: `"int64"`, or `{ name = "decimal", attrs = { precision = 18, scale = 8 } }`; bytes are base64."""


class CsvConfig(PluginConfig):
    """Comma-separated lines. Every line has the columns in the order of `fields`."""

    fields: list[CsvField]
    """The columns, in order."""
    header: bool = False
    """Whether to skip lines that contain exactly the field names, such as the header of a file."""
    delimiter: str = ","
    """The delimiter: one ASCII character, such as `";"` or `"\\t"`."""
    quote: str = '"'
    """The quote character, doubled inside a quoted cell; `""` disables quoting."""
    null: str = ""
    """The text of an unquoted null cell. An empty quoted cell is always empty text."""

    @field_validator("delimiter", "quote")
    @classmethod
    def _one_byte(cls, value: str) -> str:
        if len(value) > 1 or not value.isascii() or value in ("\n", "\r"):
            raise ValueError(f"expected one ASCII character, no line break (got {value!r})")
        return value

    @model_validator(mode="after")
    def _fits(self) -> CsvConfig:
        check_distinct([field.name for field in self.fields])
        if not self.fields:
            raise PydanticCustomError("csv", "csv needs at least one field", {"key": "fields"})
        if not self.delimiter or self.delimiter == self.quote:
            raise PydanticCustomError("csv", "delimiter must not be empty or equal to quote", {"key": "delimiter"})
        if self.null and (self.delimiter in self.null or (self.quote and self.quote in self.null)):
            raise PydanticCustomError("csv", "null must not contain the delimiter or the quote", {"key": "null"})
        return self


SPEC = FormatSpec(
    name="csv",
    summary="comma-separated lines, one per record, with typed columns",
    config=CsvConfig,
    implementation="gauss.plugins.formats.csv.codec:CsvFormat",
)
