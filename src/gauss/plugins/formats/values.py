"""Conversion of values to column types, from text (csv) and from decoded values (msgpack): checked, never rounded.

| value | verdict |
|---|---|
| text that is no number, boolean, date, time or timestamp; a value of another kind | wrong_type |
| a number outside its type, more digits than a decimal holds, beyond a double | out_of_range |
| text that is not UTF-8 where the type asks for it | bad_utf8 |
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from gauss.contracts.field_types import parse_member, parse_type
from gauss.contracts.format import BadRecord, FieldType
from gauss.plugins.formats.decimals import scaled, unscaled

RANGES = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)
}
MAX_FLOAT = 3.4028235677973366e38  # values from here on round to infinity
_FLOAT = struct.Struct("<f")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_REAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,5})?")
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)

Convert = Callable[[Any], Any]


def wrong(detail: str, column: str) -> BadRecord:
    return BadRecord("wrong_type", detail, column)


def beyond(detail: str, column: str) -> BadRecord:
    return BadRecord("out_of_range", detail, column)


def whole(value: int, kind: str, column: str) -> int:
    low, high = RANGES[kind]
    if not low <= value <= high:
        raise beyond(f"{value} does not fit {kind}", column)
    return value


def real(value: float, kind: str, column: str) -> float:
    if kind == "float" and math.isfinite(value) and abs(value) >= MAX_FLOAT:
        raise beyond(f"{value} is beyond a float", column)
    # The nearest float, which the column will hold.
    return float(_FLOAT.unpack(_FLOAT.pack(value))[0]) if kind == "float" else value


def decimal(value: Decimal, type_: FieldType, column: str) -> Decimal:
    precision, scale = type_.attrs["precision"], type_.attrs.get("scale", 0)
    if not value.is_finite():
        raise wrong(f"{value} is not a valid decimal", column)
    number = unscaled(value, scale)
    if number is None or abs(number) >= 10**precision:
        raise beyond(f"{value} does not fit decimal({precision},{scale})", column)
    return scaled(number, scale)


def moment(nanos: int, type_: FieldType, column: str) -> Any:
    """The column value of nanoseconds since 1970: a datetime truncated to its precision, or the number itself."""
    digits = type_.attrs.get("precision", 6)
    step = 10 ** (9 - digits)
    nanos = nanos // step * step
    if digits > 6:
        if not -(2**63) <= nanos < 2**63:
            raise beyond(f"{nanos} ns is beyond an int64", column)
        return nanos
    try:
        return EPOCH + dt.timedelta(microseconds=nanos // 1000)
    except OverflowError:
        raise beyond("a timestamp outside the years 1 to 9999", column) from None


def iso_nanos(text: str, column: str) -> int:
    """Nanoseconds since 1970 of `2026-01-02T03:04:05.123456789Z`; without a zone it is UTC."""
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        found = dt.datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in (None, 'Z') else zone}")
    except ValueError:
        raise wrong(f"{text!r} is not a valid timestamp", column) from None
    seconds = (found - EPOCH) // dt.timedelta(seconds=1)
    return seconds * 10**9 + int((fraction or "0").ljust(9, "0"))


def iso_text(value: Any, type_: FieldType) -> str | int:
    """A timestamp as text with its precision, or as a number of its unit."""
    nanos = value if isinstance(value, int) else (utc(value) - EPOCH) // dt.timedelta(microseconds=1) * 1000
    unit = type_.attrs.get("unit", "iso")
    if unit != "iso":
        return int(nanos) // UNIT_NS[unit]
    digits = type_.attrs.get("precision", 6)
    seconds, rest = divmod(int(nanos), 10**9)
    moment = EPOCH + dt.timedelta(seconds=seconds)
    fraction = f".{rest:09d}"[: digits + 1] if digits else ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0") + fraction + "Z"


def utc(value: dt.datetime) -> dt.datetime:
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def from_text(type_: FieldType, column: str) -> Convert:
    """A function from the text of a cell to its value."""
    kind = type_.name
    if kind in RANGES:

        def integer(text: str) -> int:
            if _WHOLE.fullmatch(text) is None:
                raise wrong(f"{text!r:.100} is not a valid {kind}", column)
            return whole(int(text), kind, column)

        return integer
    if kind in ("float", "double"):

        def number(text: str) -> float:
            if text in _SPECIAL:
                return _SPECIAL[text]
            if _REAL.fullmatch(text) is None:
                raise wrong(f"{text!r:.100} is not a valid {kind}", column)
            value = float(text)
            if math.isinf(value):
                raise beyond(f"{text:.100} is beyond a {kind}", column)
            return real(value, kind, column)

        return number
    if kind == "bool":

        def boolean(text: str) -> bool:
            if text not in ("true", "false"):
                raise wrong(f"{text!r:.100} is neither true nor false", column)
            return text == "true"

        return boolean
    if kind == "decimal":

        def exact(text: str) -> Decimal:
            if _REAL.fullmatch(text) is None:
                raise wrong(f"{text!r:.100} is not a valid decimal", column)
            return decimal(Decimal(text), type_, column)

        return exact
    if kind == "timestamp":
        unit = type_.attrs.get("unit", "iso")
        if unit == "iso":
            return lambda text: moment(iso_nanos(text, column), type_, column)

        def since(text: str) -> Any:
            if _WHOLE.fullmatch(text) is None:
                raise wrong(f"{text!r:.100} is not a number of {unit}", column)
            return moment(int(text) * UNIT_NS[unit], type_, column)

        return since
    return _text_converters(kind, column)


def _text_converters(kind: str, column: str) -> Convert:
    def date(text: str) -> dt.date:
        try:
            if len(text) != 10:
                raise ValueError
            return dt.date.fromisoformat(text)
        except ValueError:
            raise wrong(f"{text!r:.100} is not a valid date", column) from None

    def time(text: str) -> int:
        try:
            found = dt.time.fromisoformat(text)
        except ValueError:
            raise wrong(f"{text!r:.100} is not a valid time of day", column) from None
        return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond

    def raw(text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            raise wrong("the text is not valid base64", column) from None

    return {"date": date, "time": time, "bytes": raw}.get(kind, lambda text: text)


_HELD: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(RANGES, (int, Decimal)),
    "float": (float, int),
    "double": (float, int),
    "bool": (bool,),
    "bytes": (bytes,),
    "decimal": (Decimal, int),
    "timestamp": (dt.datetime, int),
    "date": (dt.date,),
    "time": (int,),
    "array": (list,),
    "string": (str, bytes),
    "varchar": (str, bytes),
}


def check(value: Any, type_: FieldType, column: str) -> None:
    """Raises BadRecord for a value that could be written but not read back."""
    kind = type_.name
    if value is None or kind not in _HELD:
        return
    odd = (isinstance(value, bool) and kind != "bool") or (isinstance(value, dt.datetime) and kind == "date")
    odd = odd or (isinstance(value, bytes) and kind in ("string", "varchar") and type_.attrs.get("utf8") is not False)
    fits = isinstance(value, _HELD[kind])
    if odd or not fits:
        raise wrong(f"expected {kind}, found {type(value).__name__}", column)
    if kind in RANGES:
        if value != int(value):
            raise wrong(f"{value} is not a valid {kind}", column)
        whole(int(value), kind, column)
    elif kind in ("float", "double"):
        real(_as_float(value, kind, column), kind, column)
    elif kind == "decimal":
        decimal(Decimal(value), type_, column)
    elif kind == "array":
        for item in value:
            check(item, parse_type(type_.attrs["element"]), column)


def from_value(type_: FieldType, column: str) -> Convert:
    """A function from a value of a self-describing format to the column's value; null stays null."""
    inner = _from_value(type_, column)
    return lambda value: None if value is None else inner(value)


def _from_value(type_: FieldType, column: str) -> Convert:
    kind = type_.name

    def expect(value: Any, *kinds: type) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise wrong(f"expected {kind}, found {type(value).__name__}", column)
        return value

    if kind in RANGES:
        return lambda value: whole(expect(value, int), kind, column)
    if kind in ("float", "double"):
        return lambda value: real(_as_float(expect(value, float, int), kind, column), kind, column)
    if kind == "bool":
        return lambda value: expect(value, bool)
    if kind in ("string", "varchar"):
        if type_.attrs.get("utf8") is False:
            return lambda value: value.encode() if isinstance(value, str) else bytes(expect(value, bytes))
        return lambda value: expect(value, str)
    if kind == "bytes":
        return lambda value: bytes(expect(value, bytes))
    if kind == "decimal":

        def exact(value: Any) -> Decimal:
            if isinstance(expect(value, str, int), str) and _REAL.fullmatch(value) is None:
                raise wrong(f"{value!r:.100} is not a valid decimal", column)
            return decimal(Decimal(value), type_, column)

        return exact
    if kind == "timestamp":
        return lambda value: _moment_of(value, type_, column)
    if kind in ("date", "time"):
        convert = from_text(type_, column)
        return lambda value: convert(expect(value, str))
    if kind == "array":
        each = from_value(parse_type(type_.attrs["element"]), column)
        return lambda value: [each(item) for item in expect(value, list)]
    if kind == "map":
        return _map(type_, column, expect)
    members = [parse_member(index, member) for index, member in enumerate(type_.attrs["fields"])]
    converters = [(name, from_value(inner, column)) for name, inner in members]
    if kind == "struct":
        return lambda value: {name: convert(expect(value, dict).get(name)) for name, convert in converters}

    def members_of(value: Any) -> dict[str, Any]:
        if len(expect(value, list)) != len(converters):
            raise wrong(f"expected {len(converters)} members, found {len(value)}", column)
        return {name: convert(item) for (name, convert), item in zip(converters, value, strict=True)}

    return members_of


def _as_float(value: float, kind: str, column: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise beyond(f"beyond a {kind}", column) from None


def _map(type_: FieldType, column: str, expect: Callable[..., Any]) -> Convert:
    key_type = parse_type(type_.attrs.get("key", "string"))
    key, item = from_value(key_type, column), from_value(parse_type(type_.attrs["value"]), column)
    if key_type.name in ("string", "varchar") and key_type.attrs.get("utf8") is not False:
        return lambda value: [(key(k), item(v)) for k, v in expect(value, dict).items()]
    return lambda value: [{"key": key(k), "value": item(v)} for k, v in expect(value, dict).items()]


def _moment_of(value: Any, type_: FieldType, column: str) -> Any:
    unit = type_.attrs.get("unit", "iso")
    if isinstance(value, dt.datetime):
        return moment((utc(value) - EPOCH) // dt.timedelta(microseconds=1) * 1000, type_, column)
    if isinstance(value, int) and not isinstance(value, bool) and unit != "iso":
        return moment(value * UNIT_NS[unit], type_, column)
    if isinstance(value, str) and unit == "iso":
        return moment(iso_nanos(value, column), type_, column)
    raise wrong(f"expected timestamp ({unit}), found {type(value).__name__}", column)
