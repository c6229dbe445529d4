"""Fields as a config gives them: a name or path, and a type with its attributes."""

from __future__ import annotations

import difflib
import re
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from gauss.contracts.format import FieldType
from gauss.contracts.plugin import PluginConfig

SCALARS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float", "double", "bool", "string", "varchar", "decimal", "timestamp", "date", "time", "bytes"),
)
ALIASES = {
    "int": "int64",
    "float32": "float",
    "float64": "double",
    "boolean": "bool",
    "text": "string",
    "binary": "bytes",
}
ATTRS = {
    "decimal": {"precision", "scale"},
    "numeric": {"precision", "scale"},
    "timestamp": {"precision", "unit", "timezone"},
    "string": {"utf8"},
    "text": {"utf8"},
    "bpchar": {"utf8", "length"},
    "varchar": {"length", "utf8"},
    "array": {"element"},
    "map": {"key", "value"},
    "tuple": {"fields"},
    "struct": {"fields"},
    "int8": {"bits"},
}
_PATH = re.compile(r"^\$(\.[^.\[\]\"`]+(\[\*\])?)+$")
_NAME = re.compile(r"^[^.$\[\]\"`]+$")


class TypeConfig(PluginConfig):
    """A field's type: its name and attributes; a plain string is the name alone."""

    TYPES: ClassVar[tuple[str, ...]] = SCALARS
    ALIASES: ClassVar[dict[str, str]] = ALIASES
    ATTRS: ClassVar[dict[str, set[str]]] = ATTRS
    FINEST: ClassVar[int] = 9
    """Maximum precision of a timestamp."""
    UNITS: ClassVar[tuple[str, ...]] = ("iso", "s", "ms", "us", "ns")

    name: str
    """`int8` … `int64`, `uint8` … `uint64`, `float`, `double`, `bool`, `string`, `varchar`, `decimal`, `timestamp`,
    `date`, `time`, `bytes`."""
    attrs: dict[str, Any] = Field(default={})
    """decimal: `precision`, `scale`; timestamp: `precision` (3 = milliseconds, above 6 kept as nanoseconds) and
    `unit` (`iso` text, or `s`, `ms`, `us`, `ns` since 1970); string: `utf8 = false` for text of any encoding."""

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        name = cls.ALIASES.get(value, value)
        if name not in cls.TYPES:
            near = difflib.get_close_matches(name, cls.TYPES, 1)
            raise ValueError(f'unknown type "{value}"' + (f', did you mean "{near[0]}"?' if near else ""))
        return name

    @model_validator(mode="after")
    def _attributes(self) -> TypeConfig:
        for key in self.attrs:
            if key not in self.ATTRS.get(self.name, set()):
                raise ValueError(f'type {self.name} has no attribute "{key}"')
        if self.name == "decimal" or (self.name == "numeric" and self.attrs):
            precision, scale = self.attrs.get("precision"), self.attrs.get("scale", 0)
            if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= 38:
                raise ValueError(f"{self.name} needs precision (1 to 38) and scale (0 to precision)")
        if self.name == "timestamp":
            if self.attrs.get("precision", 6) not in range(self.FINEST + 1):
                raise ValueError(f"timestamp precision is 0 to {self.FINEST} digits of a second")
            if self.attrs.get("unit", "iso") not in self.UNITS:
                raise ValueError(f"timestamp unit is one of {', '.join(self.UNITS)}")
        for key, needed in (("array", "element"), ("map", "value"), ("tuple", "fields"), ("struct", "fields")):
            if self.name == key and needed not in self.attrs:
                raise ValueError(f"{key} needs attrs = {{ {needed} = … }}")
        for inner in self.inner():
            type(self).model_validate(inner)
        return self

    def inner(self) -> list[Any]:
        """The types inside it."""
        found = [self.attrs[key] for key in ("element", "key", "value") if key in self.attrs]
        members = self.attrs.get("fields", [])
        return found + [m["type"] if isinstance(m, dict) and "type" in m else m for m in members]

    def field_type(self) -> FieldType:
        return FieldType(self.name, self._plain_attrs())

    def _plain_attrs(self) -> dict[str, Any]:
        """Attributes with the aliases of inner types spelled out."""
        attrs = dict(self.attrs)
        for key in ("element", "key", "value"):
            if key in attrs:
                attrs[key] = self._plain(attrs[key])
        if "fields" in attrs:
            attrs["fields"] = [
                {**m, "type": self._plain(m["type"])} if isinstance(m, dict) and "type" in m else self._plain(m)
                for m in attrs["fields"]
            ]
        return attrs

    def _plain(self, inner: Any) -> Any:
        found = type(self).model_validate(inner).field_type()
        return {"name": found.name, "attrs": found.attrs} if found.attrs else found.name


def check_name(value: str) -> str:
    """A plain name or a path."""
    if not _NAME.match(value) and not _PATH.match(value):
        raise ValueError(f'expected a name or a path such as "$.order.id" or "$.items[*].sku" (got "{value}")')
    if value.count("[*]") > 1:
        raise ValueError(f"a path may hold one [*] (got {value})")
    return value


def check_distinct(names: list[str]) -> None:
    plain = [name.removeprefix("$.") for name in names]
    for name in plain:
        if plain.count(name) > 1:
            raise ValueError(f'field "{name}" is defined twice')
