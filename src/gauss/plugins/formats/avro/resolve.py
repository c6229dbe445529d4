"""Schema resolution: fields of the writer's schema are matched by name, missing ones get the reader's defaults.

| writer → reader | value |
|---|---|
| int → long, float, double; long → float, double; float → double; string ↔ bytes; enum → string | the same |
| X ↔ X or null; a record with other fields; a decimal of other digits | the same, if it fits |
| anything else | wrong_type |
"""

from __future__ import annotations

from typing import Any

from gauss.contracts.format import BadRecord
from gauss.model.errors import ConfigError
from gauss.plugins.formats.avro.datum import bytes_value, logical_value
from gauss.plugins.formats.avro.schema import MISSING, AvroType
from gauss.plugins.formats.decimals import scaled, unscaled

_WIDER = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "enum": ("string",)}
_EXACT = {("int", "long"), ("int", "double"), ("float", "double")}
_TEXT = ("string", "bytes")

Row = dict[str, Any]


class Resolution:
    """How rows of one schema become rows of another."""

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        self._writer, self._reader = writer, reader
        self.by_column = all(
            _same(writer.children[writer.names.index(name)], child)
            if name in writer.names
            else default is not MISSING or child.nullable is not None
            for name, child, default in zip(reader.names, reader.children, reader.defaults, strict=True)
        )
        """Whether columns need no more than a wider type."""

    def row(self, row: Row) -> Row:
        made: Row = _value(row, self._writer, self._reader, "")
        return made


def _same(writer: AvroType, reader: AvroType) -> bool:
    one, two = writer.nullable or writer, reader.nullable or reader
    if (one.kind, two.kind) in _EXACT and not (one.logical or two.logical):
        return True
    facts = [(n.kind, n.logical, n.size, n.precision, n.scale, n.names, len(n.children)) for n in (one, two)]
    return facts[0] == facts[1] and all(map(_same, one.children, two.children))


def _value(value: Any, writer: AvroType, reader: AvroType, column: str) -> Any:
    one, two = writer.nullable or writer, reader.nullable or reader
    _check(one, two, column)
    if value is None:
        return None
    match two.kind:
        case "record":
            return {
                name: _value(value[name], one.children[one.names.index(name)], child, column or name)
                if name in one.names
                else _default(child, default, column or name)
                for name, child, default in zip(two.names, two.children, two.defaults, strict=True)
            }
        case "array":
            return [_value(item, one.children[0], two.children[0], column) for item in value]
        case "map":
            return [(key, _value(item, one.children[0], two.children[0], column)) for key, item in value]
        case "union":
            pairs = zip(two.names, one.children, two.children, strict=True)
            return {name: _value(value[name], a, b, column) for name, a, b in pairs if name in value}
        case "float" | "double":
            return float(value)
        case "string" if isinstance(value, bytes):
            return value.decode()
        case "bytes" if isinstance(value, str):
            return value.encode()
    if two.logical == "decimal" and (one.scale, one.precision) != (two.scale, two.precision):
        number = unscaled(value, two.scale)
        if number is None or abs(number) >= 10**two.precision:
            raise BadRecord("out_of_range", f"{value} does not fit decimal({two.precision},{two.scale})", column)
        return scaled(number, two.scale)
    return value


def _check(one: AvroType, two: AvroType, column: str) -> None:
    if one.kind == two.kind:
        fits = one.logical == two.logical or (_micros(one) and _micros(two))
        fits = fits and (one.kind != "union" or one.names == two.names)
        fits = fits and (one.kind != "fixed" or one.logical == "decimal" or one.size == two.size)
    else:
        wider = two.kind in _WIDER.get(one.kind, ()) or (one.kind in _TEXT and two.kind in _TEXT)
        fits = wider and not one.logical and not two.logical
    if not fits:
        found, wanted = one.logical or one.kind, two.logical or two.kind
        raise BadRecord("wrong_type", f"the writer's schema has {found} where {wanted} is expected", column)


def _micros(node: AvroType) -> bool:
    """Whether it is a timestamp in microseconds."""
    return "timestamp" in node.logical and not node.logical.endswith("nanos")


def _default(node: AvroType, default: Any, column: str) -> Any:
    if default is MISSING and node.nullable is None:
        raise BadRecord("missing_field", "not in the writer's schema, and without a default", column)
    return None if default is MISSING else default


def read_defaults(root: AvroType) -> None:
    """Replaces the defaults of a schema, which are JSON, by values of their types."""
    seen: set[int] = set()

    def visit(node: AvroType) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.children:
            visit(child)
        for place, default in enumerate(node.defaults):
            if default is not MISSING:
                node.defaults[place] = _read(node.children[place], default, node.names[place])

    visit(root)


def _read(node: AvroType, default: Any, name: str) -> Any:
    try:
        return _stands_for(node, default)
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        kind = node.logical or node.kind
        raise ConfigError(f"{default!r:.80} can't be the default of field {name}, an Avro {kind}: {error}") from None


def _stands_for(node: AvroType, default: Any) -> Any:
    match node.kind:
        case "union":
            if default is None:
                return None
            if node.nullable is not None:
                return _stands_for(node.nullable, default)
            others = [name for name, child in zip(node.names, node.children, strict=True) if child.kind != "null"]
            first = next(place for place, child in enumerate(node.children) if child.kind != "null")
            value = _stands_for(node.children[first], default)
            return {name: value if name == node.names[first] else None for name in others}
        case "record":
            pairs = zip(node.names, node.children, node.defaults, strict=True)
            return {n: _stands_for(child, default[n]) if n in default else given for n, child, given in pairs}
        case "array":
            return [_stands_for(node.children[0], item) for item in default]
        case "map":
            return [(key, _stands_for(node.children[0], item)) for key, item in default.items()]
        case "bytes" | "fixed":
            return bytes_value(node, default.encode("latin-1"), "")
        case "int" | "long":
            low, high = node.bounds()
            if isinstance(default, bool) or not isinstance(default, int) or not low <= default <= high:
                raise ValueError("out of range")
            return logical_value(node, default)
        case "float" | "double":
            return float(default)
    return default
