"""Encodes batches of rows: each column to bytes, then joined to datums."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.plugins.formats.avro.datum import write_long
from gauss.plugins.formats.avro.schema import AvroType
from gauss.plugins.formats.encoded_columns import alike, big_endian, filled, instead_of_null, join, varied

_SEVENS = np.array([1 << (7 * place) for place in range(1, 10)], np.uint64)


def encode(root: AvroType, rows: pa.RecordBatch, head: bytes) -> pa.BinaryArray | None:
    """Datums, each after `head`; None if a value or type must be written by the datum codec."""
    parts: list[pa.BinaryArray | bytes] = [head]
    for name, node in zip(root.names, root.children, strict=True):
        at = rows.schema.get_field_index(name)
        pieces = _field(node, rows.column(at)) if at >= 0 else None
        if pieces is None:
            return None
        parts.append(pieces)
    return join(*parts) if len(rows) and root.names else None


def _field(node: AvroType, values: pa.Array) -> pa.BinaryArray | None:
    if node.nullable is None:
        # A null has a default or is an error; the row codec handles both.
        return None if values.null_count else _value(node, values)
    null = [child.kind for child in node.children].index("null")
    pieces = _value(node.children[1 - null], values)
    return None if pieces is None else instead_of_null(join(_long(1 - null), pieces), _long(null))


def _long(value: int) -> bytes:
    out = bytearray()
    write_long(value, out)
    return bytes(out)


def _value(node: AvroType, values: pa.Array) -> pa.BinaryArray | None:
    kinds, kind = pa.types, values.type
    match node.kind:
        case "boolean" if kinds.is_boolean(kind):
            return alike(filled(values).astype(np.uint8), values)
        case "int" | "long":
            numbers = _numbers(node, values)
            return None if numbers is None else _longs(numbers, values)
        case "float" if kinds.is_float32(kind):
            return alike(filled(values).astype("<f4"), values)
        case "double" if kinds.is_floating(kind):
            return alike(filled(values).astype("<f8"), values)
        case "string" if kinds.is_string(kind):
            return _counted(values)
        case "bytes" | "fixed" if node.logical == "decimal":
            return _decimals(node, values)
        case "bytes" if kinds.is_binary(kind):
            return _counted(values)
        case "fixed" if kinds.is_binary(kind):
            fits = pc.all(pc.equal(pc.binary_length(values), node.size)).as_py()
            return values if fits is not False else None
        case "enum" if kinds.is_string(kind):
            places = pc.index_in(values, value_set=pa.array(node.symbols))
            return _longs(filled(places).astype(np.int64), values) if places.null_count == values.null_count else None
    return None


def _numbers(node: AvroType, values: pa.Array) -> np.ndarray | None:
    """The integers that encode the values; None if one does not fit or the types do not match."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        if kind.unit != "us" or "timestamp" not in node.logical or node.logical.endswith("nanos"):
            return None
    elif pa.types.is_date32(kind):
        if node.logical != "date":
            return None
    elif not pa.types.is_integer(kind) or pa.types.is_uint64(kind):
        return None
    numbers = filled(values.cast(pa.int32()) if pa.types.is_date32(kind) else values.cast(pa.int64())).astype(np.int64)
    if node.logical == "time-millis" or (pa.types.is_timestamp(kind) and node.logical.endswith("millis")):
        numbers //= 1000
    low, high = node.bounds()
    return numbers if len(numbers) == 0 or low <= numbers.min() <= numbers.max() <= high else None


def _longs(numbers: np.ndarray, values: pa.Array) -> pa.BinaryArray:
    """Zigzag varints."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = 1 + np.searchsorted(_SEVENS, zigzag, side="right")
    width = int(sizes.max(initial=1))
    table = np.empty((len(numbers), width), np.uint8)
    for place in range(width):
        more = np.where(sizes > place + 1, 128, 0)
        table[:, place] = ((zigzag >> np.uint64(7 * place)) & np.uint64(127)).astype(np.uint8) | more
    return varied(table, sizes, values)


def _counted(values: pa.Array) -> pa.BinaryArray:
    return join(_longs(filled(pc.binary_length(values)).astype(np.int64), values), values.cast(pa.binary()))


def _decimals(node: AvroType, values: pa.Array) -> pa.BinaryArray | None:
    kind = values.type
    if not pa.types.is_decimal128(kind) or kind.scale != node.scale or kind.precision > node.precision:
        return None
    halves = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)[values.offset : values.offset + len(values)]
    numbers = np.where(pc.is_valid(values), halves[:, 0], 0)
    if (np.where(pc.is_valid(values), halves[:, 1], 0) != numbers >> 63).any():
        return None  # beyond 64 bits
    whole = big_endian(numbers)
    if node.kind == "fixed":
        sign = np.repeat((numbers >> 63).astype(np.uint8)[:, None], max(0, node.size - 8), axis=1)
        made = np.hstack([sign, whole[:, max(0, 8 - node.size) :]])
        fits = node.size >= 8 or (numbers >> (8 * node.size - 1) == numbers >> 63).all()
        return alike(made.view(f"V{node.size}").ravel(), values) if fits else None
    sizes = 1 + np.searchsorted(
        [1 << (8 * place - 1) for place in range(1, 8)], np.where(numbers < 0, ~numbers, numbers), side="right"
    )
    table = np.zeros((len(numbers), 9), np.uint8)
    table[:, 0] = sizes << 1  # a length below 64 as a varint
    for size in range(1, 9):
        if (some := sizes == size).any():
            table[some, 1 : 1 + size] = whole[some, 8 - size :]
    return varied(table, 1 + sizes, values)
