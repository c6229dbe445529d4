"""Parses Avro schemas to trees of types, each with its field type and the bounds of its values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gauss.contracts.field_types import plain_type
from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_SECONDS = (-62135596800, 253402300799)  # years 1 to 9999: what dates and timestamps of every library reach
_TIMESTAMPS = {
    f"{local}timestamp-{unit}": (unit, per)
    for local in ("", "local-")
    for unit, per in (("millis", 10**3), ("micros", 10**6), ("nanos", 10**9))
}
MISSING = object()
MOST_NODES = 20_000


@dataclass
class AvroType:
    """A type; `kind` is its name in Avro."""

    kind: str
    logical: str = ""
    children: list[AvroType] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of a record's fields or a union's branches."""
    defaults: list[Any] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    precision: int = 0
    scale: int = 0

    @property
    def nullable(self) -> AvroType | None:
        """The other branch of a union with null and one more."""
        if self.kind == "union" and len(self.children) == 2 and self.children[0].kind != self.children[1].kind:
            others = [child for child in self.children if child.kind != "null"]
            return others[0] if len(others) == 1 else None
        return None

    def bounds(self) -> tuple[int, int]:
        """The lowest and highest value of an int or long."""
        if self.logical in _TIMESTAMPS:
            unit, per = _TIMESTAMPS[self.logical]
            if unit == "nanos":
                return -(2**63), 2**63 - 1
            return _SECONDS[0] * per, _SECONDS[1] * per + per - 1
        if self.logical == "date":
            return -719162, 2932896
        if self.logical == "time-millis":
            return 0, 86_400_000 - 1
        if self.logical == "time-micros":
            return 0, 86_400_000_000 - 1
        return (-(2**31), 2**31 - 1) if self.kind == "int" else (-(2**63), 2**63 - 1)

    def field_type(self) -> FieldType:
        """What it is in a schema."""
        if (inner := self.nullable) is not None:
            return inner.field_type()
        match self.kind:
            case "array":
                return FieldType("array", {"element": plain_type(self.children[0].field_type())})
            case "map":
                return FieldType("map", {"key": "string", "value": plain_type(self.children[0].field_type())})
            case "record" | "union":
                members = [
                    {"name": name, "type": plain_type(child.field_type())}
                    for name, child in zip(self.names, self.children, strict=True)
                    if self.kind == "record" or child.kind != "null"
                ]
                return FieldType("struct", {"fields": members})
            case "bytes" | "fixed" if self.logical == "decimal":
                return FieldType("decimal", {"precision": self.precision, "scale": self.scale})
        if self.logical in _TIMESTAMPS:
            digits = {"millis": 3, "micros": 6, "nanos": 9}[_TIMESTAMPS[self.logical][0]]
            local = {"timezone": False} if self.logical.startswith("local") else {}
            return FieldType("timestamp", {"precision": digits} | local)
        if self.logical == "date":
            return FieldType("date")
        if self.logical.startswith("time-"):
            return FieldType("time", {"precision": 3 if self.logical == "time-millis" else 6})
        return FieldType(_NAMES[self.kind])


_NAMES = {
    "null": "string",
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
}
_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {*_TIMESTAMPS, "time-micros"},
    "bytes": {"decimal"},
    "fixed": {"decimal"},
}


def parse(text: str) -> AvroType:
    """The root record of a schema; raises ConfigError."""
    try:
        root = _parse(json.loads(text), {}, "", ())
    except json.JSONDecodeError as error:
        raise ConfigError(f"the Avro schema is no JSON: {error}") from None
    if (nodes := _nodes(root, {})) > MOST_NODES:
        raise ConfigError(f"an Avro schema of {nodes} types, written out: expected at most {MOST_NODES}")
    if root.kind != "record":
        raise ConfigError(f"expected an Avro record, found {root.kind}", hint="rows need a record at the root")
    return root


def _nodes(node: AvroType, counted: dict[int, int]) -> int:
    """Number of types in the tree; named ones count each time, so that a few lines of schema can expand to billions."""
    if id(node) not in counted:
        counted[id(node)] = 1 + sum(_nodes(child, counted) for child in node.children)
    return counted[id(node)]


def _parse(schema: Any, known: dict[str, AvroType], space: str, above: tuple[str, ...]) -> AvroType:
    if isinstance(schema, list):
        children = [_parse(branch, known, space, above) for branch in schema]
        return AvroType("union", children=children, names=[_branch(branch) for branch in schema])
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return AvroType(schema)
        full = schema if "." in schema or not space else f"{space}.{schema}"
        full = full if full in known or full in above else schema
        if full in above:
            raise ConfigError(f'Avro type "{schema}" holds itself: columns can\'t be endless')
        if full not in known:
            raise ConfigError(f'unknown Avro type "{schema}"', hint=f"one of {', '.join([*PRIMITIVES, *known])}")
        return known[full]
    if not isinstance(schema, dict) or "type" not in schema:
        raise ConfigError(f"expected an Avro type, found {json.dumps(schema)[:80]}")
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _parse(kind, known, space, above)
    if kind in ("record", "error", "enum", "fixed"):
        return _named(schema, kind, known, space, above)
    if kind == "array":
        return AvroType("array", children=[_parse(schema.get("items"), known, space, above)])
    if kind == "map":
        return AvroType("map", children=[_parse(schema.get("values"), known, space, above)])
    if kind not in PRIMITIVES:
        return _parse(kind, known, space, above)
    return _logical(AvroType(kind), schema)


def _named(
    schema: dict[str, Any], kind: str, known: dict[str, AvroType], space: str, above: tuple[str, ...]
) -> AvroType:
    name = schema.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"an Avro {kind} needs a name")
    if "." in name:
        space = name.rpartition(".")[0]
    else:
        space = schema.get("namespace", space)
        name = f"{space}.{name}" if space else name
    if kind == "enum":
        made = AvroType("enum", symbols=list(schema["symbols"]))
    elif kind == "fixed":
        made = _logical(AvroType("fixed", size=int(schema["size"])), schema)
    else:
        made = AvroType("record")
        for entry in schema.get("fields", []):
            made.names.append(entry["name"])
            made.defaults.append(entry.get("default", MISSING))
            made.children.append(_parse(entry["type"], known, space, (*above, name)))
    known[name] = made
    return made


def _logical(made: AvroType, schema: dict[str, Any]) -> AvroType:
    logical = schema.get("logicalType", "")
    if logical not in _LOGICAL.get(made.kind, ()):
        return made  # unknown logical types are ignored, as Avro specifies
    made.logical = logical
    if logical == "decimal":
        made.precision, made.scale = int(schema.get("precision", 0)), int(schema.get("scale", 0))
        if not 0 <= made.scale <= made.precision <= 38 or made.precision == 0:
            raise ConfigError(f"expected a decimal of at most 38 digits, found {schema}")
    return made


def _branch(schema: Any) -> str:
    """A branch's name, as Avro's JSON writes it."""
    if isinstance(schema, str):
        return schema
    kind = schema.get("type")
    return schema["name"] if kind in ("record", "enum", "fixed") else str(kind)


def plain_schema(root: AvroType) -> str:
    """The same schema for polars: named types spelled out where they are used, logical types that it does not know
    left out."""
    return json.dumps(_plain(root, iter(range(10**9))))


def _plain(node: AvroType, numbers: Any) -> Any:
    if node.kind == "union":
        return [_plain(child, numbers) for child in node.children]
    if node.kind == "array":
        return {"type": "array", "items": _plain(node.children[0], numbers)}
    if node.kind == "record":
        pairs = zip(node.names, node.children, strict=True)
        inner = [{"name": name, "type": _plain(child, numbers)} for name, child in pairs]
        return {"type": "record", "name": f"R{next(numbers)}", "fields": inner}
    if node.kind == "enum":
        return "int"  # polars panics over an enum that may be null, or that stands in something else
    made: dict[str, Any] = {"type": node.kind}
    if node.kind == "fixed":
        made |= {"name": f"F{next(numbers)}", "size": node.size}
    if node.logical == "decimal":
        made |= {"logicalType": "decimal", "precision": node.precision, "scale": node.scale}
    elif node.logical and not node.logical.endswith("nanos"):
        made["logicalType"] = node.logical
    return made


def symbols_of(node: AvroType) -> list[str] | None:
    """Of an enum, whether it may be null or not."""
    inner = node.nullable or node
    return inner.symbols if inner.kind == "enum" else None


def polars_reads(root: AvroType) -> bool:
    """Whether polars has every type of the tree, or an enum's number for a field of the root."""
    return bool(root.children) and all(symbols_of(child) is not None or _reads(child) for child in root.children)


def _reads(node: AvroType) -> bool:
    if node.kind == "union":
        inner = node.nullable
        return inner is not None and _reads(inner)
    if node.kind in ("null", "map", "enum"):
        return False
    if node.logical == "decimal" and node.size > 16:
        return False
    if node.kind == "record" and not node.children:
        return False
    return all(_reads(child) for child in node.children)
