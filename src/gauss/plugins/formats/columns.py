"""Conversion of Arrow columns between the types of a library and those of Spark; merging of partial batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import BadRecord, Decoded, FieldType
from gauss.contracts.format_batch import empty_rows
from gauss.plugins.formats.values import RANGES

Columns = dict[str, pa.Array]
YEARS_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)
YEARS_DAYS = (-719_162, 2_932_896)
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


def bytes_of(data: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, bytes) of records, without a copy."""
    _, starts, content = data.buffers()
    body = np.frombuffer(content if content is not None else b"", np.uint8)
    body.flags.writeable = False  # always: machine code is compiled anew for writable arrays
    if len(data) == 0:
        return np.zeros(1, np.int64), body
    offsets = np.frombuffer(starts, np.int64 if pa.types.is_large_binary(data.type) else np.int32)
    return offsets[data.offset : data.offset + len(data) + 1].astype(np.int64), body


def is_ascii(offsets: np.ndarray, body: np.ndarray) -> bool:
    """Whether no record has a byte above 127."""
    return bool(body[offsets[0] : offsets[-1]].max(initial=0) < 128)


def pieces(body: np.ndarray, starts: np.ndarray, lengths: np.ndarray, present: np.ndarray) -> pa.BinaryArray:
    """Slices of a buffer as a binary column, null where `present` is false."""
    lengths = np.where(present, lengths, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    valid = None if present.all() else pa.array(present).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body[places])]
    return pa.BinaryArray.from_buffers(pa.binary(), len(starts), buffers)


def adapt(values: pa.Array, to: pa.DataType) -> pa.Array:
    """The same values in another type; raises ArrowInvalid where one does not fit."""
    kind = values.type
    if kind == to:
        return values
    kinds = pa.types
    if isinstance(values, pa.ChunkedArray):
        return adapt(values.combine_chunks(), to)
    if kinds.is_dictionary(kind):
        return adapt(values.dictionary_decode(), to)
    if kinds.is_struct(to) and kinds.is_struct(kind):
        by_name = dict(zip([field.name for field in kind], values.flatten(), strict=True))
        children = [
            adapt(by_name[field.name], field.type) if field.name in by_name else pa.nulls(len(values), field.type)
            for field in to
        ]
        return pa.StructArray.from_arrays(children, fields=list(to), mask=values.is_null())
    if _is_nested(to) and _is_nested(kind):
        return _nested(values, to)
    if kinds.is_int64(to) and (kinds.is_timestamp(kind) or kinds.is_duration(kind)):
        unit = pa.timestamp("ns", tz=kind.tz) if kinds.is_timestamp(kind) else pa.duration("ns")
        return values.cast(unit).cast(pa.int64())
    if kinds.is_int64(to) and kinds.is_time(kind):
        return values.cast(pa.time64("us")).cast(pa.int64())
    if kinds.is_time(to) and kinds.is_int64(kind):
        return values.cast(pa.time64("us")).cast(to)
    if (kinds.is_timestamp(to) or kinds.is_duration(to)) and kinds.is_int64(kind):
        unit = pa.timestamp("ns", tz=to.tz) if kinds.is_timestamp(to) else pa.duration("ns")
        return values.cast(unit).cast(to)
    return values.cast(to)


def _is_nested(kind: pa.DataType) -> bool:
    kinds = pa.types
    return bool(
        kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind) or kinds.is_map(kind)
    )


def _nested(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Converts between lists and maps; a map is a list of pairs."""
    lengths, inner, mask = _opened(values)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    if pa.types.is_map(to):
        pairs = inner if pa.types.is_struct(inner.type) else inner.cast(pa.struct([to.key_field, to.item_field]))
        keys, items = pairs.flatten()
        made = pa.MapArray.from_arrays(offsets, adapt(keys, to.key_type), adapt(items, to.item_type), type=to)
    else:
        made = pa.ListArray.from_arrays(offsets, adapt(inner, to.value_type), type=to)
    return made if mask is None else pc.if_else(mask, pa.nulls(len(made), to), made)


def _opened(values: pa.Array) -> tuple[np.ndarray, pa.Array, pa.Array | None]:
    """(lengths, elements, which are null) of a list or map."""
    if pa.types.is_map(values.type):
        as_list = pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)]))
        values = values.cast(as_list)
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64), values.flatten(), values.is_null() if values.null_count else None


def as_declared(rows: pa.RecordBatch, types: dict[str, FieldType]) -> pa.RecordBatch | None:
    """Rows cast to their declared types; None if a value may not fit."""
    made = []
    for field, values in zip(rows.schema, rows.columns, strict=True):
        if (type_ := types.get(field.name)) is not None and len(rows):
            target = arrow_type(type_)
            whole = pa.types.is_integer(target) and pa.types.is_integer(field.type)
            if type_.name == "json" or (field.type != target and not whole):
                return None
            try:
                values = values.cast(target)  # noqa: PLW2901
            except pa.ArrowInvalid:
                return None
            if not _within(values, type_.name):
                return None
        made.append(values)
    return pa.RecordBatch.from_arrays(made, names=rows.schema.names) if made else rows


def _within(values: pa.Array, name: str) -> bool:
    """Whether all values are within limits that the Arrow type does not express: unsigned numbers, years up to 9999."""
    if pa.types.is_timestamp(values.type):
        values, bounds = values.cast(pa.int64()), YEARS_US
    elif pa.types.is_date(values.type):
        values, bounds = values.cast(pa.int32()), YEARS_DAYS
    elif name.startswith("uint"):
        bounds = RANGES[name]
    else:
        return True
    low, high = pc.min_max(values).as_py().values()
    return low is None or bool(bounds[0] <= low <= high <= bounds[1])


def moment_text(values: pa.Array, attrs: dict[str, Any]) -> pa.StringArray:
    """Timestamps as ISO text of their precision, or as numbers of their unit."""
    unit, digits = attrs.get("unit", "iso"), attrs.get("precision", 6)
    whole = values.cast(pa.timestamp("us", tz="UTC"))
    if unit != "iso":
        # numpy rounds down, also before 1970; Arrow's division would round towards zero.
        micros = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // _UNIT_US[unit]
        return pa.array(micros, mask=values.is_null().to_numpy(zero_copy_only=False)).cast(pa.string())
    text = pc.strftime(whole, format="%Y-%m-%dT%H:%M:%S")  # with six digits of the second
    cut = 19 if digits == 0 else 20 + digits
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(text, 0, cut), "Z", "")


def pick(columns: Columns, name: str) -> pa.Array:
    """A column by name, or by a path into one: `$.order.id`, `$.items[*].sku`."""
    if name in columns:
        return columns[name]
    first, *parts = name.removeprefix("$.").split(".")
    plain = first.removesuffix("[*]")
    if plain not in columns:
        raise BadRecord("no_such_field", f"no field {name}; there are {', '.join(columns)}", name)
    return _follow(columns[plain], ["[*]"] * first.endswith("[*]") + parts, name)


def _follow(values: pa.Array, parts: list[str], name: str) -> pa.Array:
    if not parts:
        return values
    part, *rest = parts
    if part == "[*]":
        if not rest:
            return values
        lengths, inner, mask = _opened(values)
        found = _follow(inner, rest, name)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        made = pa.ListArray.from_arrays(offsets, found, type=pa.list_(pa.field("element", found.type)))
        return made if mask is None else pc.if_else(mask, pa.nulls(len(made), made.type), made)
    plain = part.removesuffix("[*]")
    if not pa.types.is_struct(values.type) or values.type.get_field_index(plain) < 0:
        raise BadRecord("no_such_field", f"no field {name}", name)
    return _follow(pc.struct_field(values, plain), ["[*]"] * part.endswith("[*]") + rest, name)


def select(columns: Columns, fields: pa.Schema, count: int) -> pa.RecordBatch:
    """The requested columns in the requested types."""
    if not len(fields):
        return empty_rows(count)
    return pa.RecordBatch.from_arrays([adapt(pick(columns, f.name), f.type) for f in fields], schema=fields)


def no_rows(fields: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in fields], schema=fields)


def merge(fast: pa.RecordBatch, kept: np.ndarray, slow: Decoded) -> Decoded:
    """Rows of two decoders in the order of their records; `kept` has the record indexes of the `fast` rows."""
    if not len(slow.good):
        return Decoded(fast, kept, slow.bad, slow.spread)
    if not len(kept):
        return slow
    both = np.concatenate([kept, slow.good])
    order = np.argsort(both, kind="stable")
    if fast.num_columns == 0:
        return Decoded(empty_rows(len(both)), both[order], slow.bad, slow.spread)
    rows = pa.concat_batches([fast, slow.rows]).take(pa.array(order))
    return Decoded(rows, both[order], slow.bad, slow.spread)
