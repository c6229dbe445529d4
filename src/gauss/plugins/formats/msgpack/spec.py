"""msgpack: one map per record."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.plugins.formats.fields import SCALARS, TypeConfig, check_distinct, check_name


class MsgpackType(TypeConfig):
    """A field's type: its name and attributes; a plain string is the name alone."""

    TYPES: ClassVar[tuple[str, ...]] = (*SCALARS, "array", "map", "tuple", "struct")

    name: str
    """`int8` … `uint64`, `float`, `double`, `bool`, `string`, `decimal` (text or a whole number), `timestamp`
    (MessagePack's own, text or a number), `date` and `time` (text), `bytes`, `array`, `map`, `tuple`, `struct`."""
    attrs: dict[str, Any] = Field(default={})
    """As in json; array: `element`; map: `key`, `value`; tuple: `fields`, a list of types; struct: `fields`, a list of
    `{ name, type }`."""


class MsgpackField(PluginConfig):
    """A field that is decoded."""

    name: str
    """A plain name, or a path into the map: `$.order.id`, `$.items[*].sku`."""
    type: MsgpackType
    """Its type: `"int64"`, or `{ name = "map", attrs = { key = "int32", value = "string" } }`."""

    @field_validator("name")
    @classmethod
    def _path(cls, value: str) -> str:
        return check_name(value)

    @model_validator(mode="after")
    def _arrays(self) -> MsgpackField:
        if "[*]" in self.name and self.type.name != "array":
            raise ValueError(f'{self.name} selects many values, so its type must be an array (got "{self.type.name}")')
        return self


class MsgpackConfig(PluginConfig):
    """MessagePack maps. Without `fields` the format is self-describing."""

    fields: list[MsgpackField] | None = None
    """The fields to decode, with their types. A record with another type becomes a dead letter."""

    @model_validator(mode="after")
    def _distinct(self) -> MsgpackConfig:
        check_distinct([field.name for field in self.fields or []])
        return self


SPEC = FormatSpec(
    name="msgpack",
    summary="MessagePack maps, one per record; typed by `fields`, or self-describing",
    config=MsgpackConfig,
    implementation="gauss.plugins.formats.msgpack.codec:MsgpackFormat",
)
