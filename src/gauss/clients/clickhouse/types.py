"""Conversion of ClickHouse types between text and FieldType."""

from __future__ import annotations

import re
from typing import Any

from gauss.clients.clickhouse.quote import identifier, literal
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type
from gauss.model.errors import ConfigError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?: [A-Za-z]+)*")
_WRAPPERS = {"Nullable": "inner", "LowCardinality": "inner", "Array": "element"}
_DECIMAL_WIDTH = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_INTS: dict[str, tuple[str, ...]] = {
    # the attributes of a type, in order; "?" marks an optional one
    "Decimal": ("precision", "scale?"),
    "DateTime64": ("precision", "timezone?"),
    "DateTime": ("timezone?",),
    "Time64": ("precision",),
    "FixedString": ("length",),
    "Dynamic": ("max_types?",),
    **dict.fromkeys(_DECIMAL_WIDTH, ("scale",)),
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "DateTime64": {"precision": 3},
    "Decimal": {"precision": 10, "scale": 0},
    "Time64": {"precision": 3},
    **{name: {"scale": 0} for name in _DECIMAL_WIDTH},
}


def render_type(field_type: FieldType) -> str:
    """The type as text for DDL; raises ConfigError if it can't be a ClickHouse type."""
    name, attrs = field_type.name, dict(field_type.attrs)
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a ClickHouse type", hint="write for example String, Int64, Decimal64")
    if "args" in attrs:
        return f"{name}({attrs['args']})"
    if name in _WRAPPERS:
        inner = attrs.pop("inner", None) or attrs.pop("element", None)
        _all_used(name, attrs, inner is not None, _WRAPPERS[name])
        return f"{name}({render_type(as_field_type(inner))})"
    if name == "Map":
        key, value = attrs.pop("key", None), attrs.pop("value", None)
        _all_used(name, attrs, key is not None and value is not None, "key and value")
        return f"Map({render_type(as_field_type(key))}, {render_type(as_field_type(value))})"
    if name in ("Tuple", "Nested", "Variant"):
        return f"{name}({', '.join(_elements(name, attrs))})"
    if name in ("Enum", "Enum8", "Enum16"):
        values = attrs.pop("values", None)
        _all_used(name, attrs, bool(values), "values")
        if isinstance(values, dict):
            return f"{name}({', '.join(f'{literal(key)} = {int(number)}' for key, number in values.items())})"
        return f"{name}({', '.join(literal(str(key)) for key in values)})"
    if name in _INTS:
        return _with_numbers(name, attrs)
    _all_used(name, attrs, True, "")
    return name


def _with_numbers(name: str, attrs: dict[str, Any]) -> str:
    given: list[str] = []
    defaults = _DEFAULTS.get(name, {})
    for slot in _INTS[name]:
        value = attrs.pop(slot.rstrip("?"), defaults.get(slot) if attrs else None)
        if value is None:
            if slot.endswith("?") or (not given and slot in defaults):
                continue
            _all_used(name, attrs, False, slot)
        if slot.startswith("timezone"):
            given.append(literal(str(value)))
        elif slot.startswith("max_types"):
            given.append(f"max_types={int(str(value))}")
        elif isinstance(value, int) and not isinstance(value, bool):
            given.append(str(value))
        else:
            raise ConfigError(
                f"{name}: {slot.rstrip('?')} must be a whole number, found {value!r}", hint="for example 3"
            )
    _all_used(name, attrs, True, "")
    if not given and name in _DECIMAL_WIDTH:
        given = ["0"]
    return f"{name}({', '.join(given)})" if given else name


def _elements(name: str, attrs: dict[str, Any]) -> list[str]:
    """The elements of a tuple: types, or `{name, type}` if they are named."""
    elements = attrs.pop("elements", None) or attrs.pop("fields", None) or attrs.pop("types", None)
    _all_used(name, attrs, bool(elements), "elements")
    rendered = []
    for element in elements or []:
        if isinstance(element, dict) and "type" in element:
            rendered.append(f"{identifier(str(element['name']))} {render_type(as_field_type(element['type']))}")
        else:
            rendered.append(render_type(as_field_type(element)))
    return rendered


def _all_used(name: str, left: dict[str, Any], complete: bool, needs: str) -> None:
    if not complete:
        raise ConfigError(f"type {name} needs {needs}", hint=f'write {{ name = "{name}", attrs = {{ … }} }}')
    if left:
        raise ConfigError(f"type {name} does not take {', '.join(sorted(left))}", hint="remove it")


def parse_type(text: str) -> FieldType:
    """Parses a type as `system.columns` and users write it."""
    text = text.strip()
    name, bracket, rest = text.partition("(")
    name = name.strip()
    if not bracket:
        return FieldType(name)
    if not rest.endswith(")"):
        raise ConfigError(f"{text!r} is not a ClickHouse type: a parenthesis is missing", hint="close it")
    inside = rest[:-1]
    args = split_arguments(inside)
    if name in _WRAPPERS:
        return FieldType(name, {_WRAPPERS[name]: parse_type(inside)})
    if name == "Map" and len(args) == 2:
        return FieldType(name, {"key": parse_type(args[0]), "value": parse_type(args[1])})
    if name in ("Tuple", "Nested", "Variant"):
        return FieldType(name, {"elements": [_parse_element(arg) for arg in args]})
    if name in ("Enum", "Enum8", "Enum16"):
        return FieldType(name, {"values": _parse_enum(args)})
    if name in _INTS and len(args) <= len(_INTS[name]):
        slots = [slot.rstrip("?") for slot in _INTS[name]]
        values = [_unquote(arg) if arg.startswith("'") else arg.removeprefix("max_types=").strip() for arg in args]
        named = zip(slots, values, strict=False)
        return FieldType(name, {slot: value if slot == "timezone" else int(value) for slot, value in named})
    return FieldType(name, {"args": inside})


_NAMED = re.compile(r"(`(?:[^`\\]|\\.|``)*`|[A-Za-z_]\w*)\s+(.+)", re.DOTALL)


def _parse_element(text: str) -> Any:
    named = _NAMED.fullmatch(text)
    # "Enum8('a' = 1)" has a blank too, but after its parenthesis; the server never returns "DOUBLE PRECISION".
    if named and not (text.find("(") != -1 and text.find("(") < text.find(" ") and not text.startswith("`")):
        return {"name": _unquote(named[1]), "type": parse_type(named[2])}
    return parse_type(text)


def _parse_enum(args: list[str]) -> Any:
    pairs = [re.fullmatch(r"('(?:[^'\\]|\\.|'')*')\s*(?:=\s*(-?\d+))?", arg, re.DOTALL) for arg in args]
    if any(pair is None for pair in pairs):
        raise ConfigError(f"Enum({', '.join(args)}) can't be parsed", hint="write Enum8('a' = 1, 'b' = 2)")
    found = [(_unquote(pair[1]), pair[2]) for pair in pairs if pair]
    if all(number is None for _, number in found):
        return [key for key, _ in found]
    return {key: int(number or 0) for key, number in found}


def split_arguments(text: str) -> list[str]:
    """Splits arguments at top-level commas."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.|``)*`|[(),]", text, re.DOTALL):
        token = match.group()
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


def _unquote(text: str) -> str:
    quote = text[:1]
    if quote not in ("'", "`"):
        return text
    inner = text[1:-1].replace(quote * 2, quote) if quote == "`" else text[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner, flags=re.DOTALL)


def canonical(field_type: FieldType) -> str:
    """The canonical text of a type: `Decimal64(8)` becomes `Decimal(18, 8)`."""
    name, attrs = field_type.name, {**_DEFAULTS.get(field_type.name, {}), **field_type.attrs}
    if name in _DECIMAL_WIDTH:
        name, attrs = "Decimal", {"precision": _DECIMAL_WIDTH[name], "scale": attrs["scale"]}
    elif name == "Decimal":
        attrs.setdefault("scale", 0)
    elif name == "Enum":
        name = "Enum8"
    if name in ("Enum8", "Enum16") and isinstance(attrs["values"], list):
        attrs["values"] = {key: number for number, key in enumerate(attrs["values"], 1)}
    if name in ("Enum8", "Enum16"):
        attrs["values"] = dict(sorted(attrs["values"].items(), key=lambda item: item[1]))
    if name == "Enum8" and max(map(abs, attrs["values"].values())) > 127:
        name = "Enum16"
    for key in ("inner", "element", "key", "value"):
        if key in attrs:
            attrs[key] = parse_type(canonical(as_field_type(attrs[key])))
    for key in ("elements", "fields", "types"):
        if key in attrs:
            attrs[key] = [
                {"name": item["name"], "type": parse_type(canonical(as_field_type(item["type"])))}
                if isinstance(item, dict) and "type" in item
                else parse_type(canonical(as_field_type(item)))
                for item in attrs[key]
            ]
    return render_type(FieldType(name, attrs))
