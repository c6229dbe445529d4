"""Conversion of Postgres types between text and FieldType."""

from __future__ import annotations

import re
from typing import Any

from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type
from gauss.model.errors import ConfigError

_ALIASES = {
    "int2": "SMALLINT", "int4": "INTEGER", "int": "INTEGER", "int8": "BIGINT", "float4": "REAL",
    "float8": "DOUBLE PRECISION", "float": "DOUBLE PRECISION", "decimal": "NUMERIC", "bool": "BOOLEAN",
    "character varying": "VARCHAR", "character": "CHAR", "bpchar": "CHAR", "bit varying": "VARBIT",
    "timestamp without time zone": "TIMESTAMP", "time without time zone": "TIME", "serial4": "SERIAL",
    "serial8": "BIGSERIAL",
}  # fmt: skip
_LENGTH = {"VARCHAR", "CHAR", "CHARACTER VARYING", "CHARACTER", "BPCHAR", "BIT", "VARBIT", "BIT VARYING"}
_TIMES = {"TIMESTAMP", "TIME"}
_PRECISION = {"TIMESTAMPTZ", "TIMETZ", "INTERVAL"}
_NUMBERS = {"NUMERIC", "DECIMAL"}
_NAME = re.compile(r'(?:[A-Za-z_]\w*|"(?:[^"]|"")+")(?:\.(?:[A-Za-z_]\w*|"(?:[^"]|"")+")|(?: [A-Za-z_]+)*)')
_PARTS = re.compile(
    r'\s*((?:\w+\.)?"(?:[^"]|"")+"|[^"(\[]+?)\s*(?:\(([^)]*)\))?\s*((?:with|without) time zone)?\s*((?:\[\d*\])*)\s*',
    re.IGNORECASE,
)


def render_type(field_type: FieldType) -> str:
    """The type as text for DDL; raises ConfigError if it can't be a Postgres type."""
    name, attrs = field_type.name.strip(), dict(field_type.attrs)
    upper = name.upper()
    if upper == "ARRAY":
        if "element" not in attrs:
            raise ConfigError("type ARRAY needs an element", hint='write { name = "ARRAY", attrs = { element = … } }')
        element = as_field_type(attrs.pop("element"))
        _none_left(name, attrs)
        return f"{render_type(element)}[]"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a Postgres type", hint="write for example BIGINT, TEXT, NUMERIC")
    arguments = ""
    zone = ""
    if "args" in attrs:
        arguments = str(attrs.pop("args"))
    elif upper in _NUMBERS:
        precision, scale = _number(name, attrs, "precision"), _number(name, attrs, "scale")
        if precision is None and scale is not None:
            raise ConfigError(f"{name}: scale needs a precision", hint="write both, or neither")
        arguments = ",".join(str(part) for part in (precision, scale) if part is not None)
    elif upper in _LENGTH:
        length = _number(name, attrs, "length")
        arguments = "" if length is None else str(length)
    elif upper in _TIMES | _PRECISION:
        precision = _number(name, attrs, "precision")
        arguments = "" if precision is None else str(precision)
        if upper in _TIMES:
            zone = " WITH TIME ZONE" if attrs.pop("timezone", False) else ""
    _none_left(name, attrs)
    return f"{name}({arguments}){zone}" if arguments else f"{name}{zone}"


def _number(name: str, attrs: dict[str, Any], key: str) -> int | None:
    value = attrs.pop(key, None)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ConfigError(f"{name}: {key} must be a whole number, found {value!r}", hint="for example 3")


def _none_left(name: str, left: dict[str, Any]) -> None:
    if left:
        raise ConfigError(f"type {name} does not take {', '.join(sorted(left))}", hint="remove it")


def parse_type(text: str) -> FieldType:
    """Parses a type as `format_type` and users write it; built-in names become upper case."""
    found = _PARTS.fullmatch(text)
    if not found:
        raise ConfigError(f"{text!r} is not a Postgres type", hint="write for example NUMERIC(18,8) or TEXT[]")
    name, arguments, zone, brackets = found.groups()
    if '"' not in name and "." not in name:
        name = _ALIASES.get(name.lower(), name.upper())
    attrs: dict[str, Any] = {}
    if arguments is not None:
        parts = [part.strip() for part in arguments.split(",")]
        if name in _NUMBERS and all(re.fullmatch(r"-?\d+", part) for part in parts):
            attrs = dict(zip(("precision", "scale"), map(int, parts), strict=False))
        elif name in _LENGTH and parts[0].isdigit():
            attrs = {"length": int(parts[0])}
        elif name in _TIMES | _PRECISION and parts[0].isdigit():
            attrs = {"precision": int(parts[0])}
        else:
            attrs = {"args": arguments}
    if zone and zone.lower().startswith("with "):
        attrs["timezone"] = True
    field_type = FieldType(name, attrs)
    for _ in range(brackets.count("[")):
        field_type = FieldType("ARRAY", {"element": field_type})
    return field_type


def canonical(field_type: FieldType) -> FieldType:
    """The canonical form of a type: TIMESTAMPTZ becomes TIMESTAMP with a time zone."""
    if field_type.name.upper() == "ARRAY":
        return FieldType("ARRAY", {"element": canonical(as_field_type(field_type.attrs["element"]))})
    found = parse_type(render_type(field_type))
    if found.name in ("TIMESTAMPTZ", "TIMETZ"):
        return FieldType(found.name.removesuffix("TZ"), {**found.attrs, "timezone": True})
    if found.name in _NUMBERS and "precision" in found.attrs:
        return FieldType(found.name, {"scale": 0, **found.attrs})
    return found
