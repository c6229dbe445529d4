"""json: one JSON object per record."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.plugins.formats.fields import TypeConfig, check_distinct, check_name


class JsonType(TypeConfig):
    """A field's type: its name and attributes; a plain string is the name alone."""

    TYPES: ClassVar[tuple[str, ...]] = (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float", "double", "bool", "string", "varchar", "decimal", "timestamp", "date", "bytes", "array", "json"),
    )
    ATTRS: ClassVar[dict[str, set[str]]] = {
        "decimal": {"precision", "scale"},
        "timestamp": {"precision", "unit"},
        "array": {"element"},
        "varchar": {"length"},
    }
    FINEST: ClassVar[int] = 6
    UNITS: ClassVar[tuple[str, ...]] = ("iso", "s", "ms", "us")

    name: str
    """`int8` … `int64`, `uint8` … `uint64`, `float`, `double`, `bool`, `string`, `decimal`, `timestamp`, `date`,
    `bytes` (base64 text), `array`, or `json` (any value, kept as its text)."""
    attrs: dict[str, Any] = Field(default={})
    """decimal: `precision`, `scale`; timestamp: `precision` (3 = milliseconds) and `unit` (`iso` text, or `s`, `ms`,
    `us` since 1970); array: `element`, the type of its elements."""

    def element(self) -> JsonType:
        """The type of an array's elements."""
        return JsonType.model_validate(self.attrs["element"])


class JsonField(PluginConfig):
    """A field that is decoded."""

    name: str
    """A plain name, or a path into the object: `$.order.id`, `$.items[*].sku`."""
    type: JsonType
    """Its type: `"int64"`, or `{ name = "decimal", attrs = { precision = 18, scale = 8 } }`."""

    @field_validator("name")
    @classmethod
    def _path(cls, value: str) -> str:
        return check_name(value)

    @model_validator(mode="after")
    def _arrays(self) -> JsonField:
        if "[*]" in self.name and self.type.name != "array":
            raise ValueError(f'{self.name} selects many values, so its type must be an array (got "{self.type.name}")')
        return self


class JsonConfig(PluginConfig):
    """JSON objects. Without `fields` the format is self-describing."""

    fields: list[JsonField] | None = None
    """The fields to decode, with their types. A record with another type becomes a dead letter."""
    non_finite: Literal["null", "reject"] = "null"
    """How NaN and infinity are written, which JSON cannot represent: `null` writes null and logs a warning once per
    field, `reject` turns the row into a dead letter."""

    @model_validator(mode="after")
    def _distinct(self) -> JsonConfig:
        check_distinct([field.name for field in self.fields or []])
        return self


SPEC = FormatSpec(
    name="json",
    summary="JSON objects, one per record; typed by `fields`, or self-describing",
    config=JsonConfig,
    implementation="gauss.plugins.formats.json.codec:JsonFormat",
    gives_nan=False,
)
