"""Decodes single records of JSON and decides which are bad; the decoders of batches must agree with it.

| record | meaning |
|---|---|
| empty, or white space only | bad_json |
| malformed, more than one value, a byte order mark, a bare control character | bad_json |
| not UTF-8, in any field | bad_utf8 |
| half of a surrogate pair, in any field | bad_json |
| an array, number, string or null instead of an object | not_object |
| newline inside, between tokens | white space, as any other |
| a name twice in an object | the last one counts |
| a field missing or null | null |
| a fraction or exponent for an integer (1.0, 1e2) | wrong_type |
| an integer outside its type | out_of_range |
| a number, boolean, array or object for a string; text for a number or boolean | wrong_type |
| an integer for a float or double | its nearest double |
| a number beyond a double; beyond a float where the type is float | out_of_range |
| more digits than a decimal holds | out_of_range; never rounded |
| text that is no timestamp, date or base64 | wrong_type |
| fields that are not decoded | anything well-formed |
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.json.plan import RANGES, JsonColumn, getter, struct_type
from gauss.plugins.formats.json.spec import JsonType
from gauss.plugins.formats.values import real

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


class RowDecoder:
    """Decodes single records to the values of some columns."""

    def __init__(self, columns: list[JsonColumn]) -> None:
        self.columns = columns
        self._decoder = msgspec.json.Decoder(struct_type(columns))
        self._ways = getter(columns)
        self._convert = [_converter(entry) for entry in columns]

    def decode(self, data: bytes) -> list[Any]:
        """The values of the columns; raises BadRecord."""
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise BadRecord("bad_utf8", f"byte {error.start} is not UTF-8") from None
        try:
            found = self._decoder.decode(data)
        except msgspec.ValidationError as error:
            raise self._explain(data, str(error)) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRecord("bad_json", str(error)) from None
        return [convert(_pick(found, way)) for way, convert in zip(self._ways, self._convert, strict=True)]

    def _explain(self, data: bytes, message: str) -> BadRecord:
        """The verdict on a record; malformed text goes before a wrong type, at which the typed decoder stops."""
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            if "out of range" not in str(error):
                return BadRecord("bad_json", str(error))
            value = {}
        if not isinstance(value, dict):
            return BadRecord("not_object", f"expected an object, found {_kind(value)}")
        reason = "out_of_range" if "out of range" in message else "wrong_type"
        column = message.rsplit("at `$.", 1)[-1].rstrip("`") if "at `$." in message else ""
        return BadRecord(reason, message, column)


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _pick(found: Any, way: Sequence[str]) -> Any:
    for index, attribute in enumerate(way):
        if found is None:
            return None
        if attribute.endswith("[*]"):
            items = _member(found, attribute[:-3])
            return None if items is None else [_pick(item, way[index + 1 :]) for item in items]
        found = _member(found, attribute)
    return found


def _member(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, dict) else getattr(found, name)


def _converter(entry: JsonColumn) -> Callable[[Any], Any]:
    name = entry.name
    if entry.type.name == "array":
        inner = value_converter(entry.type.element(), name)
        return lambda values: None if values is None else [None if v is None else inner(v) for v in values]
    convert = value_converter(entry.type, name)
    return lambda value: None if value is None else convert(value)


def value_converter(type_: JsonType, column: str) -> Callable[[Any], Any]:
    """Converts a JSON value to a value of the Arrow type; raises BadRecord."""
    match type_.name:
        case name if name in RANGES:
            low, high = RANGES[name]

            def whole(value: int) -> int:
                if not low <= value <= high:
                    raise BadRecord("out_of_range", f"{value} does not fit {name}", column)
                return value

            return whole
        case "float" | "double":

            def number(value: float) -> float:
                if math.isinf(value):
                    raise BadRecord("out_of_range", f"beyond a {type_.name}", column)
                return real(value, type_.name, column)

            return number
        case "decimal":
            return lambda value: _decimal(value, type_, column)
        case "timestamp":
            return lambda value: _timestamp(value, type_, column)
        case "date":
            return lambda value: _date(value, column)
        case "bytes":
            return lambda value: _bytes(value, column)
        case "json":
            return lambda value: None if bytes(value) == b"null" else bytes(value).decode()
        case "array":
            raise BadRecord("wrong_type", "an array of arrays can't be decoded", column)
        case _:
            return lambda value: value


def _decimal(value: Decimal, type_: JsonType, column: str) -> Decimal:
    precision, scale = type_.attrs["precision"], type_.attrs.get("scale", 0)
    if not value.is_finite():
        raise BadRecord("wrong_type", f"{value} is not a valid decimal", column)
    _, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    assert isinstance(exponent, int)
    exponent += len(digits) - len(text) if text != "0" else 0
    if text == "0":
        return Decimal(0)
    if -exponent > scale or len(text) + exponent > precision - scale:
        raise BadRecord("out_of_range", f"{value!s:.100} does not fit decimal({precision},{scale})", column)
    return value


def _timestamp(value: Any, type_: JsonType, column: str) -> dt.datetime:
    unit = type_.attrs.get("unit", "iso")
    try:
        if unit == "iso":
            found = dt.datetime.fromisoformat(value)
            found = found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
        else:
            found = _EPOCH + dt.timedelta(microseconds=value * _UNIT_US[unit])
    except (ValueError, OverflowError):
        reason = "wrong_type" if unit == "iso" else "out_of_range"
        raise BadRecord(reason, f"{value!r:.100} is not a valid timestamp", column) from None
    step = 10 ** (6 - type_.attrs.get("precision", 6))
    return found.replace(microsecond=found.microsecond // step * step)


def _date(value: str, column: str) -> dt.date:
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        raise BadRecord("wrong_type", f"{value!r:.100} is not a valid date", column) from None


def _bytes(value: str, column: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise BadRecord("wrong_type", "the text is not valid base64", column) from None
