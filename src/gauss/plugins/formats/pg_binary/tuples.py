"""Decodes single rows and decides which are bad; the decoder of batches must agree with it.

| record | meaning |
|---|---|
| ends too early, goes on after its last column, another count of columns | bad_pg |
| a column of another length than its type has | wrong_type |
| text that is not UTF-8 (unless `utf8 = false`) | bad_utf8 |
| numeric NaN or infinity, or more digits than declared; a timestamp or date beyond the years 1 to 9999 | out_of_range |
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from gauss.contracts.field_types import parse_type
from gauss.contracts.format import BadRecord, FieldType, SourceField
from gauss.plugins.formats.decimals import scaled, unscaled

_Y2K = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_DAY = dt.date(2000, 1, 1)
FIXED = {
    "int2": ">h",
    "int4": ">i",
    "int8": ">q",
    "float4": ">f",
    "float8": ">d",
    "bool": ">?",
    "timestamp": ">q",
    "timestamptz": ">q",
    "date": ">i",
    "time": ">q",
}
OIDS = {
    "int2": 21,
    "int4": 23,
    "int8": 20,
    "float4": 700,
    "float8": 701,
    "numeric": 1700,
    "bool": 16,
    "text": 25,
    "varchar": 1043,
    "bpchar": 1042,
    "bytea": 17,
    "timestamp": 1114,
    "timestamptz": 1184,
    "date": 1082,
    "time": 1083,
    "uuid": 2950,
    "json": 114,
    "jsonb": 3802,
}


class TupleCodec:
    """Converts between rows and tuples of COPY."""

    def __init__(self, fields: list[SourceField]) -> None:
        self._fields = fields
        self._read = [reader(field.field_type, field.name) for field in fields]

    def decode(self, data: bytes) -> dict[str, Any]:
        """One row; raises BadRecord."""
        if len(data) < 2:
            raise BadRecord("bad_pg", "ends too early")
        count = int.from_bytes(data[:2], "big", signed=True)
        if count != len(self._fields):
            raise BadRecord("bad_pg", f"expected {len(self._fields)} columns, found {count}")
        row: dict[str, Any] = {}
        position = 2
        pieces: list[bytes | None] = []
        for _ in self._fields:
            piece, position = _piece(data, position)
            pieces.append(piece)
        if position != len(data):
            raise BadRecord("bad_pg", "goes on after its last column")
        for field, read, piece in zip(self._fields, self._read, pieces, strict=True):
            row[field.name] = None if piece is None else read(piece)
        return row

    def encode(self, row: dict[str, Any]) -> bytes:
        unknown = [name for name in row if all(name != field.name for field in self._fields)]
        if unknown:
            raise ValueError(f"no column {unknown[0]}; there are {', '.join(field.name for field in self._fields)}")
        out = bytearray(struct.pack(">h", len(self._fields)))
        for field in self._fields:
            _put(out, row.get(field.name), field.field_type)
        return bytes(out)


def _piece(data: bytes, position: int) -> tuple[bytes | None, int]:
    if position + 4 > len(data):
        raise BadRecord("bad_pg", "ends too early")
    length = int.from_bytes(data[position : position + 4], "big", signed=True)
    position += 4
    if length == -1:
        return None, position
    if length < 0 or position + length > len(data):
        raise BadRecord("bad_pg", "ends too early")
    return data[position : position + length], position + length


def reader(type_: FieldType, column: str) -> Callable[[bytes], Any]:
    """A function from the bytes of a value to the column's value."""
    kind = type_.name
    if kind in FIXED:
        form = struct.Struct(FIXED[kind])

        def fixed(piece: bytes) -> Any:
            if len(piece) != form.size:
                raise BadRecord("wrong_type", f"expected {form.size} bytes of {kind}, found {len(piece)}", column)
            return _time(kind, form.unpack(piece)[0], column)

        return fixed
    if kind == "numeric":
        return lambda piece: _numeric(piece, type_, column)
    if kind == "array":
        return lambda piece: _array(piece, reader(parse_type(type_.attrs["element"]), column), column)
    if kind == "uuid":

        def uuid(piece: bytes) -> bytes:
            if len(piece) != 16:
                raise BadRecord("wrong_type", f"expected 16 bytes of uuid, found {len(piece)}", column)
            return piece

        return uuid
    if kind == "bytea" or type_.attrs.get("utf8") is False:
        return lambda piece: piece

    def text(piece: bytes) -> str:
        if kind == "jsonb":
            if piece[:1] != b"\x01":
                raise BadRecord("wrong_type", "expected jsonb of version 1", column)
            piece = piece[1:]
        try:
            return piece.decode()
        except UnicodeDecodeError as error:
            raise BadRecord("bad_utf8", f"byte {error.start} is not UTF-8", column) from None

    return text


def _time(kind: str, value: Any, column: str) -> Any:
    try:
        if kind in ("timestamp", "timestamptz"):
            return _Y2K + dt.timedelta(microseconds=value)
        if kind == "date":
            return _DAY + dt.timedelta(days=value)
    except OverflowError:
        raise BadRecord("out_of_range", f"a {kind} outside the years 1 to 9999", column) from None
    return value


def _numeric(piece: bytes, type_: FieldType, column: str) -> Any:
    if len(piece) < 8 or len(piece) != 8 + 2 * int.from_bytes(piece[:2], "big"):
        raise BadRecord("wrong_type", f"expected a numeric, found {len(piece)} bytes", column)
    count, weight, sign, scale = struct.unpack_from(">HhHH", piece)
    digits = struct.unpack_from(f">{count}H", piece, 8)
    if sign not in (0, 0x4000):
        raise BadRecord("out_of_range", "a numeric that is NaN or infinite", column)
    if any(digit > 9999 for digit in digits):
        raise BadRecord("wrong_type", "expected digits of base 10000", column)
    number = 0
    for digit in digits:
        number = number * 10_000 + digit
    value = Decimal((int(sign != 0), tuple(map(int, str(number))), 4 * (weight - count + 1)))
    precision = type_.attrs.get("precision")
    if precision is None:
        exact = unscaled(value, scale)
        if exact is None:
            raise BadRecord("wrong_type", "a numeric with digits beyond its scale", column)
        return format(scaled(exact, scale), "f")
    exact = unscaled(value, type_.attrs.get("scale", 0))
    if exact is None or abs(exact) >= 10**precision:
        detail = f"a value that does not fit numeric({precision},{type_.attrs.get('scale', 0)})"
        raise BadRecord("out_of_range", detail, column)
    return scaled(exact, type_.attrs.get("scale", 0))


def _array(piece: bytes, read: Callable[[bytes], Any], column: str) -> list[Any]:
    if len(piece) < 12:
        raise BadRecord("wrong_type", f"expected an array, found {len(piece)} bytes", column)
    dimensions = int.from_bytes(piece[:4], "big", signed=True)
    if dimensions == 0:
        return []
    if dimensions != 1 or len(piece) < 20:
        raise BadRecord("wrong_type", f"expected an array of one dimension, found {dimensions}", column)
    count, position = int.from_bytes(piece[12:16], "big", signed=True), 20
    if not 0 <= count <= len(piece):
        raise BadRecord("wrong_type", f"expected an array, found {count} elements in {len(piece)} bytes", column)
    values = []
    for _ in range(count):
        item, position = _piece(piece, position)
        values.append(None if item is None else read(item))
    if position != len(piece):
        raise BadRecord("wrong_type", "an array that goes on after its last element", column)
    return values


def _put(out: bytearray, value: Any, type_: FieldType) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    piece = _bytes(value, type_)
    out += struct.pack(">i", len(piece)) + piece


def _bytes(value: Any, type_: FieldType) -> bytes:
    kind = type_.name
    if kind in ("timestamp", "timestamptz"):
        utc = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
        return struct.pack(">q", (utc - _Y2K) // dt.timedelta(microseconds=1))
    if kind == "date":
        return struct.pack(">i", (value - _DAY).days)
    if kind in FIXED:
        return struct.pack(FIXED[kind], value)
    if kind == "numeric":
        return _numeric_bytes(Decimal(value), type_)
    if kind == "array":
        inner = parse_type(type_.attrs["element"])
        out = bytearray(struct.pack(">iii", 1 if value else 0, int(None in value), OIDS[inner.name]))
        if value:
            out += struct.pack(">ii", len(value), 1)
        for item in value:
            _put(out, item, inner)
        return bytes(out)
    piece = value.encode() if isinstance(value, str) else bytes(value)
    if kind == "uuid" and len(piece) != 16:
        raise ValueError(f"expected 16 bytes of uuid, found {len(piece)}")
    return b"\x01" + piece if kind == "jsonb" else piece


def _numeric_bytes(value: Decimal, type_: FieldType) -> bytes:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a valid numeric")
    scale = type_.attrs.get("scale", 0) if "precision" in type_.attrs else max(-exponent, 0)
    number = unscaled(value, scale)
    if number is None or abs(number) >= 10 ** type_.attrs.get("precision", 131_072):
        raise ValueError(f"{value} does not fit numeric({type_.attrs.get('precision', 'any')},{scale})")
    pad = -scale % 4
    rest, digits = abs(number) * 10**pad, []
    while rest:
        rest, digit = divmod(rest, 10_000)
        digits.append(digit)
    weight = len(digits) - 1 - (scale + pad) // 4
    while digits and digits[0] == 0:
        digits.pop(0)
    head = struct.pack(">HhHH", len(digits), weight if digits else 0, 0x4000 if number < 0 else 0, scale)
    return head + struct.pack(f">{len(digits)}H", *reversed(digits))
