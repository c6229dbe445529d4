"""Reads single datums that the walk has checked, and writes them."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.avro.schema import MISSING, AvroType
from gauss.plugins.formats.avro.walk import read_long
from gauss.plugins.formats.decimals import scaled, unscaled

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = dt.date(1970, 1, 1)


def read(node: AvroType, data: bytes, position: int, column: str = "") -> tuple[Any, int]:
    """A value and where it ends."""
    match node.kind:
        case "null":
            return None, position
        case "boolean":
            return data[position] != 0, position + 1
        case "int" | "long":
            value, position = read_long(data, position, len(data))
            return logical_value(node, value), position
        case "float":
            return struct.unpack_from("<f", data, position)[0], position + 4
        case "double":
            return struct.unpack_from("<d", data, position)[0], position + 8
        case "bytes" | "string":
            length, position = read_long(data, position, len(data))
            piece = data[position : position + length]
            return (piece.decode() if node.kind == "string" else bytes_value(node, piece, column)), position + length
        case "fixed":
            return bytes_value(node, data[position : position + node.size], column), position + node.size
        case "enum":
            index, position = read_long(data, position, len(data))
            return node.symbols[index], position
        case "union":
            branch, position = read_long(data, position, len(data))
            value, position = read(node.children[branch], data, position, column)
            if node.nullable is not None or node.children[branch].kind == "null":
                return value, position
            others = [n for n, child in zip(node.names, node.children, strict=True) if child.kind != "null"]
            return {name: value if name == node.names[branch] else None for name in others}, position
        case "record":
            row = {}
            for name, child in zip(node.names, node.children, strict=True):
                row[name], position = read(child, data, position, column or name)
            return row, position
    items: list[Any] = []
    while True:  # an array or map, in blocks
        count, position = read_long(data, position, len(data))
        if count == 0:
            return items, position
        if count < 0:
            _, position = read_long(data, position, len(data))
        for _ in range(abs(count)):
            if node.kind == "map":
                length, position = read_long(data, position, len(data))
                key = data[position : position + length].decode()
                value, position = read(node.children[0], data, position + length, column)
                items.append((key, value))
            else:
                value, position = read(node.children[0], data, position, column)
                items.append(value)


def logical_value(node: AvroType, value: int) -> Any:
    if node.logical == "date":
        return _DAY + dt.timedelta(days=value)
    if node.logical == "time-millis":
        return value * 1000
    if "timestamp" in node.logical and not node.logical.endswith("nanos"):
        return _EPOCH + dt.timedelta(microseconds=value * (1000 if node.logical.endswith("millis") else 1))
    return value


def bytes_value(node: AvroType, piece: bytes, column: str) -> Any:
    if node.logical != "decimal":
        return piece
    number = int.from_bytes(piece, "big", signed=True)
    if abs(number) >= 10**node.precision:
        raise BadRecord("out_of_range", f"{number} has more than {node.precision} digits", column)
    return scaled(number, node.scale)


def write(node: AvroType, value: Any, out: bytearray, name: str = "") -> None:
    """Appends a value; raises ValueError if it does not fit its type."""
    match node.kind:
        case "union":
            branch = _branch_of(node, value, name)
            write_long(branch, out)
            inner = node.children[branch]
            if node.nullable is None and inner.kind != "null":
                value = value[node.names[branch]]
            write(inner, value, out, name)
            return
        case "null" if value is None:
            return
        case "record":
            for member, child, default in zip(node.names, node.children, node.defaults, strict=True):
                found = value.get(member)
                if found is None and child.kind != "union" and default not in (MISSING, None):
                    found = default
                write(child, found, out, f"{name}.{member}" if name else member)
            return
    if value is None:
        raise ValueError(f"{name} is null, and its Avro type {node.kind} allows none")
    if not _holds(node, value):
        raise ValueError(f"{name}: expected {node.logical or node.kind}, found {type(value).__name__} {value!r:.80}")
    match node.kind:
        case "boolean":
            out.append(1 if value else 0)
        case "int" | "long":
            number = _number(node, value)
            low, high = node.bounds()
            if not low <= number <= high:
                raise ValueError(f"{name}: {value} is not a valid {node.logical or node.kind}")
            write_long(number, out)
        case "float":
            out += struct.pack("<f", value)
        case "double":
            out += struct.pack("<d", value)
        case "bytes" | "string" | "fixed":
            piece = value.encode() if isinstance(value, str) else _piece(node, value, name)
            if node.kind == "string" and isinstance(value, bytes):
                value.decode()  # text that is not UTF-8 could not be read again
            if node.kind == "fixed" and len(piece) != node.size:
                raise ValueError(f"{name}: expected {node.size} bytes, found {len(piece)}")
            if node.kind != "fixed":
                write_long(len(piece), out)
            out += piece
        case "enum":
            if value not in node.symbols:
                raise ValueError(f"{name}: expected one of {', '.join(node.symbols)}, found {value!r}")
            write_long(node.symbols.index(value), out)
        case _:
            items = list(value.items()) if isinstance(value, dict) else list(value)
            if items:
                write_long(len(items), out)
            for item in items:
                if node.kind == "map":
                    key = item[0].encode()
                    write_long(len(key), out)
                    out += key
                write(node.children[0], item[1] if node.kind == "map" else item, out, name)
            out.append(0)


def _branch_of(node: AvroType, value: Any, name: str) -> int:
    kinds = [child.kind for child in node.children]
    if value is None:
        if "null" not in kinds:
            raise ValueError(f"{name} is null, and its Avro union allows none")
        return kinds.index("null")
    if node.nullable is not None:
        return 1 - kinds.index("null")
    if len(kinds) == 1:
        return 0
    chosen = [place for place, branch in enumerate(node.names) if value.get(branch) is not None]
    if len(chosen) != 1:
        raise ValueError(f"{name}: expected one branch of {', '.join(node.names)}, found {len(chosen)}")
    return chosen[0]


def _holds(node: AvroType, value: Any) -> bool:
    """Whether a value is of a type's kind: Python would make numbers of text, and zeros of as many as a number says."""
    whole = isinstance(value, int | Decimal) and not isinstance(value, bool) and value == int(value)
    match node.kind:
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            if "timestamp" in node.logical:
                return whole or isinstance(value, dt.datetime)
            return whole or (node.logical == "date" and type(value) is dt.date)
        case "float" | "double":
            return isinstance(value, float | int) and not isinstance(value, bool)
        case "bytes" | "fixed" if node.logical == "decimal":
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case "bytes" | "fixed" | "string":
            return isinstance(value, str | bytes)
    return True


def _number(node: AvroType, value: Any) -> int:
    if isinstance(value, dt.datetime):
        utc = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
        micros = (utc - _EPOCH) // dt.timedelta(microseconds=1)
        return micros // 1000 if node.logical.endswith("millis") else micros
    if isinstance(value, dt.date):
        return (value - _DAY).days
    return int(value) // 1000 if node.logical == "time-millis" else int(value)


def _piece(node: AvroType, value: Any, name: str) -> bytes:
    if node.logical != "decimal":
        return bytes(value)
    number = unscaled(value, node.scale)
    if number is None or abs(number) >= 10**node.precision:
        raise ValueError(f"{name}: {value} does not fit decimal({node.precision},{node.scale})")
    size = node.size if node.kind == "fixed" else (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def write_long(value: int, out: bytearray) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
