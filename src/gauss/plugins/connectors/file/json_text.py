"""The JSON of Arrow values, and values from JSON lines. Whole columns at a time."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from gauss.plugins.connectors.file.text import from_text, is_nested, is_number, is_text, plain_values, to_text

_CONTROL = r"[\x00-\x1f]"
_INTERVAL = pa.month_day_nano_interval()
_INTERVAL_LAYOUT = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_VALUE = "v"
_FEW = 64
NUMBER_NAMES = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON lacks; they are strings."""


def to_json(array: pa.Array) -> pa.Array:
    """The JSON text of each value; null is `null`."""
    array = plain_values(array)
    kind = array.type
    if pa.types.is_struct(kind):
        made = json_objects([each.name for each in kind.fields], array.flatten(), len(array))
    elif pa.types.is_map(kind):
        made = _json_map(array)
    elif is_nested(kind):
        made = _json_list(_as_list(array))
    else:
        made = _scalars(array)
    if array.null_count:
        made = pc.if_else(array.is_valid(), made, "null")
    return pc.fill_null(made, "null")


def json_objects(names: list[str], columns: list[pa.Array], rows: int) -> pa.Array:
    """A JSON object per row."""
    if not names:
        return pa.repeat(pa.scalar("{}"), rows)
    parts: list[object] = []
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += ["," * (place > 0) + json.dumps(name, ensure_ascii=False) + ":", to_json(column)]
    return pc.binary_join_element_wise("{", *parts, "}", "")


def _scalars(array: pa.Array) -> pa.Array:
    text = to_text(array)
    if pa.types.is_floating(array.type):
        # JSON has no such numbers: they are strings.
        return pc.if_else(pc.is_finite(array), text, _quoted(text))
    return text if is_number(array.type) else _quoted(text)


def _quoted(text: pa.Array) -> pa.Array:
    text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _CONTROL), min_count=0).as_py():
        for code in range(0x20):
            text = pc.replace_substring(text, chr(code), f"\\u{code:04x}")
    return pc.binary_join_element_wise('"', text, '"', "")


def _as_list(array: pa.Array) -> pa.Array:
    """Lists of all kinds, and intervals, as a plain list."""
    kind = array.type
    if kind == _INTERVAL:
        return _interval_parts(array)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return array.cast(pa.large_list(kind.value_type))
    return array


def _interval_parts(array: pa.Array) -> pa.Array:
    """`[months, days, nanoseconds]` of each interval."""
    counts = np.frombuffer(array.buffers()[1] or b"", _INTERVAL_LAYOUT)[array.offset : array.offset + len(array)]
    numbers = np.stack([counts[name].astype(np.int64) for name in counts.dtype.names or ()], axis=1)
    made = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 3).cast(pa.list_(pa.int64()))
    return pc.if_else(array.is_valid(), made, pa.scalar(None, made.type))


def _intervals(parts: pa.Array) -> pa.Array:
    """The reverse of `_interval_parts`; raises ArrowInvalid."""
    if not pc.all(pc.equal(pc.list_value_length(parts), 3), min_count=0).as_py() or parts.flatten().null_count:
        raise pa.ArrowInvalid("expected an interval as [months, days, nanoseconds]")
    numbers = parts.flatten().to_numpy(zero_copy_only=False).reshape(-1, 3)
    counts = np.zeros(len(parts), _INTERVAL_LAYOUT)
    valid = parts.is_valid().to_numpy(zero_copy_only=False)
    for place, name in enumerate(counts.dtype.names or ()):
        column = pa.array(numbers[:, place]).cast(pa.int64() if name == "nanoseconds" else pa.int32())
        counts[name][valid] = column.to_numpy()
    bits = parts.is_valid().buffers()[1] if parts.null_count else None
    return pa.Array.from_buffers(_INTERVAL, len(parts), [bits, pa.py_buffer(counts)])


def _json_list(array: pa.Array) -> pa.Array:
    """`[…]` of each list; whatever for null."""
    joined = pc.binary_join(_regrouped(array, to_json(array.flatten())), ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def _json_map(array: pa.Array) -> pa.Array:
    """`[{"key": …, "value": …}]` of each map; whatever for null."""
    kind = array.type
    # The storage of a map is a list of structs; a cast leaves the values where they are.
    entries = array.cast(pa.list_(pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])))
    return _json_list(entries)


def _regrouped(lists: pa.Array, values: pa.Array) -> pa.Array:
    """Lists of the same lengths with other values; null becomes an empty list."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, values)


# --- reading ---


def wire_type(kind: pa.DataType) -> pa.DataType:
    """The type as which Arrow's JSON reader reads the form of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return wire_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return wire_type(kind.value_type)
    if kind == _INTERVAL:
        return pa.list_(pa.int64())
    if pa.types.is_map(kind):
        return pa.list_(
            pa.struct([pa.field("key", wire_type(kind.key_type)), pa.field("value", wire_type(kind.item_type))])
        )
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, wire_type(each.type)) for each in kind.fields])
    if pa.types.is_nested(kind):
        return pa.list_(wire_type(kind.value_type))
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind if is_number(kind) or _is_exact(kind) or pa.types.is_null(kind) else pa.string()


def _is_exact(kind: pa.DataType) -> bool:
    """Whether Arrow reads decimals of a type exactly, from numbers and from strings."""
    return bool((pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind)) and kind.scale >= 0)


def from_wire(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a type, as Arrow's JSON reader has read them; raises ArrowInvalid."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, from_wire(array, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return from_wire(array, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(from_wire(array, kind.value_type), run_end_type=kind.run_end_type)
    if kind == _INTERVAL:
        return _intervals(array)
    if pa.types.is_struct(kind):
        return _struct_from_wire(array, kind)
    if pa.types.is_map(kind):
        return _map_from_wire(array, kind)
    if pa.types.is_nested(kind):
        return _list_from_wire(array, kind)
    if array.type == kind:
        return array
    return from_text(array, kind) if is_text(array.type) else array.cast(kind)


def _struct_from_wire(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not kind.num_fields:
        return array.cast(kind)
    columns = [from_wire(given, each.type) for given, each in zip(array.flatten(), kind.fields, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=kind.fields, mask=array.is_null())


def _offsets(array: pa.Array, *, large: bool) -> pa.Array:
    """Where each list begins in `array.flatten()`, null where the list is null."""
    number = pa.int64() if large else pa.int32()
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(number)
    valid = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(valid, offsets, pa.scalar(None, number))


def _map_from_wire(array: pa.Array, kind: pa.DataType) -> pa.Array:
    keys, values = array.flatten().flatten()
    if keys.null_count:
        raise pa.ArrowInvalid("a map has a key that is null")
    made = pa.MapArray.from_arrays(
        _offsets(array, large=False), from_wire(keys, kind.key_type), from_wire(values, kind.item_type)
    )
    return made.cast(kind)


def _list_from_wire(array: pa.Array, kind: pa.DataType) -> pa.Array:
    values = from_wire(array.flatten(), kind.value_type)
    made = pa.LargeListArray.from_arrays(_offsets(array, large=True), values)
    # Arrow casts only a list with offsets of the same width to a list view.
    return (made.cast(pa.list_(kind.value_type)) if pa.types.is_list_view(kind) else made).cast(kind)


def read_lines(data: bytes, schema: pa.Schema, *, strict: bool = False) -> pa.RecordBatch:
    """The rows of JSON lines; raises ArrowInvalid if one is wrong. Absent keys are null, unknown ones ignored, with
    `strict` wrong."""
    wire = pa.schema([pa.field(each.name, wire_type(each.type)) for each in schema])
    table = pj.read_json(
        io.BytesIO(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=wire, unexpected_field_behavior="error" if strict else "ignore"),
    )
    table.validate(full=True)
    columns = [from_wire(_whole(table.column(each.name)), each.type) for each in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def values_of_json(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a type, each from JSON text; raises ArrowInvalid, ValueError or TypeError."""
    lines = pc.binary_join_element_wise(f'{{"{_VALUE}":', pc.fill_null(text, "null"), "}\n", "")
    try:
        made = read_lines(bytes(text_bytes(lines)), pa.schema([pa.field(_VALUE, kind)])).column(0)
    except pa.ArrowInvalid:
        # Arrow reads no names of numbers inside a list: whoever called tries smaller parts, which are read here.
        if len(text) > _FEW:
            raise
        wire = wire_type(kind)
        values = [None if each is None else named_numbers(json.loads(each), wire) for each in text.to_pylist()]
        made = from_wire(pa.array(values, wire), kind)
    if len(made) != len(text):
        raise pa.ArrowInvalid("not a JSON value")
    return made


def named_numbers(value: Any, wire: pa.DataType) -> Any:
    """A JSON value, with numbers that JSON lacks instead of their names. Raises ArithmeticError."""
    if pa.types.is_floating(wire):
        return float(value) if value in NUMBER_NAMES else value
    if pa.types.is_decimal(wire):
        return Decimal(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else value
    if pa.types.is_struct(wire) and isinstance(value, dict):
        return {each.name: named_numbers(value.get(each.name), each.type) for each in wire.fields}
    if pa.types.is_list(wire) and isinstance(value, list):
        return [named_numbers(each, wire.value_type) for each in value]
    return value


def text_bytes(lines: pa.Array) -> memoryview:
    """All texts one after another, without a copy. There must be no null."""
    _, offsets, data = lines.buffers()
    if data is None:
        return memoryview(b"")
    wide = 8 if pa.types.is_large_string(lines.type) else 4
    ends = memoryview(offsets).cast("B").cast("q" if wide == 8 else "i")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
