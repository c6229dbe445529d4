"""The columns decoded from each object: their paths, the JSON types that msgspec expects, their Arrow types."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import msgspec
import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType
from gauss.plugins.formats.json.spec import JsonType

RANGES = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)
}

_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_KINDS: dict[str, Any] = {"float": float, "double": float, "bool": bool, "decimal": Decimal, "json": msgspec.Raw}


@dataclass(frozen=True)
class JsonColumn:
    """One decoded field."""

    name: str
    parts: tuple[str, ...]
    """Names of the path; a part ends in `[*]` if the elements of its array are spread."""
    type: JsonType
    arrow: pa.DataType

    @property
    def spread(self) -> bool:
        return any(part.endswith("[*]") for part in self.parts)

    @property
    def element(self) -> JsonType:
        """The type of a value, or of the elements of an array."""
        return self.type.element() if self.type.name == "array" else self.type


class Found(NamedTuple):
    """Decoded columns, and which records are suspects; the rows of suspects are meaningless."""

    columns: list[pa.Array]
    suspects: np.ndarray | None


def path_parts(name: str) -> tuple[str, ...]:
    return tuple(name[2:].split(".")) if name.startswith("$.") else (name,)


def column(name: str, type_: JsonType) -> JsonColumn:
    """The column of a configured field."""
    return JsonColumn(name, path_parts(name), type_, arrow_type(FieldType(type_.name, type_.attrs)))


def type_of(arrow: pa.DataType) -> JsonType:
    """The JSON type of an Arrow column that no config describes."""
    if pa.types.is_decimal(arrow):
        return JsonType(name="decimal", attrs={"precision": arrow.precision, "scale": arrow.scale})
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return JsonType(name="array", attrs={"element": type_of(arrow.value_type).model_dump()})
    for test, name in (
        (pa.types.is_boolean, "bool"),
        (pa.types.is_float32, "float"),
        (pa.types.is_floating, "double"),
        (pa.types.is_timestamp, "timestamp"),
        (pa.types.is_date, "date"),
        (pa.types.is_binary, "bytes"),
        (pa.types.is_large_binary, "bytes"),
    ):
        if test(arrow):
            return JsonType(name=name)
    return JsonType(name=str(arrow) if pa.types.is_integer(arrow) else "string")


def wire_type(type_: JsonType) -> Any:
    """The type that msgspec expects; null and absence are always allowed."""
    if type_.name in RANGES:
        return int | None
    if type_.name == "timestamp":
        return (str if type_.attrs.get("unit", "iso") == "iso" else int) | None
    if type_.name == "array":
        return list[wire_type(type_.element())] | None  # type: ignore[misc]
    if type_.name == "json":
        return msgspec.Raw
    return _KINDS.get(type_.name, str) | None


@dataclass
class _Node:
    children: dict[str, _Node] = field(default_factory=dict)
    spread: bool = False
    leaf: Any = None


def struct_type(columns: list[JsonColumn]) -> Any:
    """The msgspec type of an object with all columns, nested as their paths are: a struct, or a dict if the names can't
    be those of a struct."""
    root = _Node()
    for entry in columns:
        node = root
        for part in entry.parts:
            node = node.children.setdefault(part.removesuffix("[*]"), _Node())
            node.spread = node.spread or part.endswith("[*]")
        # `$.tags[*]` itself is the array; `$.items[*].sku` holds one value per element.
        last_spread = entry.parts[-1].endswith("[*]")
        node.leaf = wire_type(entry.element if entry.spread and not last_spread else entry.type)
        if last_spread:
            node.spread = False
    return _struct(root, are_plain(columns))


def are_plain(columns: list[JsonColumn]) -> bool:
    """Whether no name in a path needs an escape in JSON: the decoders of batches can't read those."""
    return not any(_ESCAPED.search(part) for entry in columns for part in entry.parts)


def _struct(node: _Node, plain: bool) -> Any:
    fields = []
    for index, (name, child) in enumerate(node.children.items()):
        inner: Any = _struct(child, plain) | None if child.children else child.leaf
        if child.spread:
            inner = list[inner] | None
        default = msgspec.Raw(b"null") if inner is msgspec.Raw else None
        fields.append((f"f{index}" if plain else name, inner, msgspec.field(default=default, name=name)))
    if plain:
        return msgspec.defstruct("Object", fields, gc=False)
    return TypedDict("Object", {name: inner for name, inner, _ in fields}, total=False)  # type: ignore[operator]


def getter(columns: list[JsonColumn]) -> list[tuple[str, ...]]:
    """For each column, the attributes (or keys) of `struct_type`'s objects that lead to its value."""
    plain_names = are_plain(columns)
    order: dict[tuple[str, ...], dict[str, str]] = {}
    found = []
    for entry in columns:
        way: tuple[str, ...] = ()
        attributes = []
        for part in entry.parts:
            plain = part.removesuffix("[*]")
            names = order.setdefault(way, {})
            names.setdefault(plain, f"f{len(names)}" if plain_names else plain)
            attributes.append(names[plain] + ("[*]" if part.endswith("[*]") and part is not entry.parts[-1] else ""))
            way = (*way, plain)
        found.append(tuple(attributes))
    return found
