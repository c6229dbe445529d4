"""json: one JSON object per record."""

from __future__ import annotations

import difflib
import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig

TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float", "double", "bool", "string", "varchar", "decimal", "timestamp", "date", "bytes", "array", "json"),
)
ALIASES = {
    "int": "int64",
    "float32": "float",
    "float64": "double",
    "boolean": "bool",
    "text": "string",
    "binary": "bytes",
}

_NAME = re.compile(r"^[^.$\[\]\"`]+$")
_PATH = re.compile(r"^\$(\.[^.\[\]\"`]+(\[\*\])?)+$")


class JsonType(PluginConfig):
    """A field's type: its name and attributes; a plain string is the name alone."""

    name: str
    """`int8` … `int64`, `uint8` … `uint64`, `float`, `double`, `bool`, `string`, `decimal`, `timestamp`, `date`,
    `bytes` (base64 text), `array`, or `json` (any value, kept as its text)."""
    attrs: dict[str, Any] = Field(default={})
    """decimal: `precision`, `scale`; timestamp: `precision` (3 = milliseconds) and `unit` (`iso` text, or `s`, `ms`,
    `us` since 1970); array: `element`, the type of its elements."""

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        name = ALIASES.get(value, value)
        if name not in TYPES:
            near = difflib.get_close_matches(name, TYPES, 1)
            raise ValueError(f'unknown type "{value}"' + (f', did you mean "{near[0]}"?' if near else ""))
        return name

    @model_validator(mode="after")
    def _attributes(self) -> JsonType:
        allowed = {
            "decimal": {"precision", "scale"},
            "timestamp": {"precision", "unit"},
            "array": {"element"},
            "varchar": {"length"},
        }.get(self.name, set())
        for key in self.attrs:
            if key not in allowed:
                raise ValueError(f'type {self.name} has no attribute "{key}"')
        if self.name == "decimal":
            precision, scale = self.attrs.get("precision"), self.attrs.get("scale", 0)
            if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= 38:
                raise ValueError("decimal needs precision (1 to 38) and scale (0 to precision)")
        if self.name == "timestamp":
            if self.attrs.get("precision", 6) not in range(7):
                raise ValueError("timestamp precision is 0 to 6 digits of a second")
            if self.attrs.get("unit", "iso") not in ("iso", "s", "ms", "us"):
                raise ValueError('timestamp unit is "iso", "s", "ms" or "us"')
        if self.name == "array":
            if "element" not in self.attrs:
                raise ValueError('array needs attrs = { element = "TYPE" }')
            self.element()
        return self

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
        if not _NAME.match(value) and not _PATH.match(value):
            raise ValueError(f'expected a name or a path such as "$.order.id" or "$.items[*].sku" (got "{value}")')
        return value

    @model_validator(mode="after")
    def _arrays(self) -> JsonField:
        if self.name.count("[*]") > 1:
            raise ValueError(f"a path may hold one [*] (got {self.name})")
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
        names = [field.name.removeprefix("$.") for field in self.fields or []]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'field "{name}" is defined twice')
        return self


SPEC = FormatSpec(
    name="json",
    summary="JSON objects, one per record; typed by `fields`, or self-describing",
    config=JsonConfig,
    implementation="gauss.plugins.formats.json.codec:JsonFormat",
    gives_nan=False,
)
