"""ClickHouse column types for Arrow columns and back, and Arrow values in the form in which they are sent.

| Arrow | ClickHouse |
|---|---|
| integers, Float32, Float64, Boolean | the same; Float16 is Float32 |
| Utf8, Binary in all layouts | String |
| Decimal(p, s) | Decimal of p digits, up to 76 |
| Date32, Date64 | Date32 |
| Timestamp | DateTime64 in UTC; a time without a zone is stored as if it were UTC |
| Time32, Time64 | Int64: microseconds since midnight |
| Duration | Int64: nanoseconds |
| Interval(MonthDayNano) | Tuple(months, days, nanoseconds) |
| List in all layouts, Map | Array, Map: never null, null becomes an empty one |
| Struct | Tuple: never null, null becomes one whose elements are null |
| arrow.uuid | UUID |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.clickhouse.type_map import column_type
from gauss.clients.clickhouse.wire import leaves, members, wire_type
from gauss.clients.errors import RowError
from gauss.contracts.field_types import type_of
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type
from gauss.model.errors import ConfigError

_INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())])
_INTERVAL_LAYOUT = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_COMPOSITE = frozenset({"Array", "Map", "Tuple", "Nested", "Variant", "Dynamic", "JSON", "Object"})
"""Types that can't be inside Nullable."""
_PARSED = frozenset({"IPv4", "IPv6", "Time", "Time64", "Int128", "Int256", "UInt128", "UInt256", "FixedString"})
_UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"


def column_of(kind: pa.DataType) -> FieldType:
    """The type of a new column for values of an Arrow type, not nullable by itself."""
    kinds = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return FieldType("UUID") if kind.extension_name == "arrow.uuid" else column_of(kind.storage_type)
    if kinds.is_dictionary(kind):
        return column_of(kind.value_type)
    if kinds.is_interval(kind):
        return column_of(_INTERVAL)
    if kinds.is_map(kind):
        return FieldType("Map", {"key": column_of(kind.key_type), "value": nullable(column_of(kind.item_type))})
    if is_list(kind):
        return FieldType("Array", {"element": nullable(column_of(kind.value_type))})
    if kinds.is_struct(kind) and kind.num_fields:
        return FieldType("Tuple", {"elements": [_member(each) for each in kind]})
    if kinds.is_timestamp(kind):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        return FieldType("DateTime64", {"precision": digits, "timezone": "UTC"})
    if kinds.is_decimal(kind):
        digits = max(kind.precision - min(kind.scale, 0), kind.scale)
        return FieldType("Decimal", {"precision": digits, "scale": max(kind.scale, 0)})
    found = None if kinds.is_struct(kind) else column_type(type_of(kind))
    if found is None:
        raise ConfigError(f"ClickHouse has no column type for Arrow type {kind}", hint="cast the column in the source")
    return as_field_type(found.attrs["inner"]) if found.name == "Nullable" else found


def _member(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": nullable(column_of(field.type))}


def nullable(kind: FieldType) -> FieldType:
    """The type with null as a value, where ClickHouse allows it."""
    if kind.name == "LowCardinality":
        return FieldType("LowCardinality", {"inner": nullable(as_field_type(kind.attrs["inner"]))})
    return kind if kind.name in _COMPOSITE or kind.name == "Nullable" else FieldType("Nullable", {"inner": kind})


def bare(kind: FieldType) -> FieldType:
    """The type without Nullable and LowCardinality."""
    while kind.name in ("Nullable", "LowCardinality"):
        kind = as_field_type(kind.attrs["inner"])
    return kind


def takes_null(kind: FieldType) -> bool:
    """Whether a column accepts null, as itself or as an empty value."""
    if kind.name == "LowCardinality":
        kind = as_field_type(kind.attrs["inner"])
    return kind.name == "Nullable" or kind.name in _COMPOSITE


def arrow_of(kind: FieldType) -> pa.DataType:
    """The Arrow type of a column's values; text if none is exact."""
    kind = bare(kind)
    if kind.name == "Array":
        return pa.list_(arrow_of(as_field_type(kind.attrs["element"])))
    if kind.name == "Map":
        return pa.map_(arrow_of(as_field_type(kind.attrs["key"])), arrow_of(as_field_type(kind.attrs["value"])))
    if kind.name == "Tuple":
        given = enumerate(kind.attrs["elements"], start=1)
        members = [
            each if isinstance(each, dict) and "type" in each else {"name": n, "type": each} for n, each in given
        ]
        return pa.struct([(str(each["name"]), arrow_of(as_field_type(each["type"]))) for each in members])
    # What a number would be sent as; of types that are not sent as anything in particular, it stays a number.
    found = wire_type(kind, pa.int8())
    known = kind.name == "Int8" or not pa.types.is_int8(found)
    return found if known and kind.name not in _PARSED else pa.string()


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists of any layout."""
    kinds = pa.types
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)) or bool(
        kinds.is_list_view(kind) or kinds.is_large_list_view(kind)
    )


def unsafe_columns(schema: pa.Schema, types: Mapping[str, FieldType]) -> list[str]:
    """Columns into which ClickHouse would write null, without an error, for a text that it can't parse."""
    return [each.name for each in schema if _is_unsafe(types[each.name], each.type)]


def _is_unsafe(kind: FieldType, given: pa.DataType) -> bool:
    if kind.name == "LowCardinality":
        return _is_unsafe(as_field_type(kind.attrs["inner"]), given)
    if kind.name == "Array" and is_list(given):
        return _is_unsafe(as_field_type(kind.attrs["element"]), given.value_type)
    if kind.name == "Map" and pa.types.is_map(given):
        key, value = as_field_type(kind.attrs["key"]), as_field_type(kind.attrs["value"])
        return _is_unsafe(key, given.key_type) or _is_unsafe(value, given.item_type)
    if kind.name == "Tuple" and pa.types.is_struct(given):
        return any(_is_unsafe(each, part.type) for each, part in zip(members(kind), given, strict=False))
    plain = _plain_type(given)
    is_text = pa.types.is_string(plain) or pa.types.is_binary(plain) or pa.types.is_fixed_size_binary(given)
    return bool(kind.name == "Nullable" and bare(kind).name in _PARSED and is_text)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind


def sendable(rows: pa.RecordBatch, types: Mapping[str, FieldType]) -> pa.Table:
    """Rows with the values that stand for them in ClickHouse. Raises RowError if one has none."""
    columns = []
    for name, values in zip(rows.schema.names, rows.columns, strict=True):
        try:
            made = _plain(values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            text = str(error).splitlines()[0]
            raise RowError(f"column {name}: {values.type}: {text}", reason="convert", column=name) from error
        _check_uuids(name, made, types[name])
        columns.append(made)
    return pa.table(columns, names=rows.schema.names)


def _plain(values: pa.Array) -> pa.Array:
    """Values of the few Arrow types that are sent, without nulls where ClickHouse has none."""
    kind, kinds = values.type, pa.types
    if isinstance(values, pa.ExtensionArray):
        return _plain(values.storage)
    if kinds.is_dictionary(kind):
        return _plain(values.cast(kind.value_type))
    if kinds.is_map(kind):
        entries = pa.ListArray.from_arrays(_offsets(values), _entries(values))
        keys, items = entries.values.field(0), entries.values.field(1)
        return pa.MapArray.from_arrays(entries.offsets, _plain(keys), _plain(items))
    if is_list(kind):
        return pa.ListArray.from_arrays(_offsets(values), _plain(values.flatten()))
    if kinds.is_struct(kind):
        # Members of a null struct are null.
        return pa.StructArray.from_arrays([_plain(each) for each in values.flatten()], names=[f.name for f in kind])
    if kinds.is_interval(kind):
        return _plain(_interval_parts(values))
    if kinds.is_time(kind):
        return values.cast(pa.time64("us")).cast(pa.int64())
    if kinds.is_duration(kind):
        return values.cast(pa.duration("ns")).cast(pa.int64())
    if kinds.is_date(kind):
        return values.cast(pa.date32())
    if kinds.is_float16(kind):
        return values.cast(pa.float32())
    return values.cast(_plain_type(kind))


def _offsets(values: pa.Array) -> pa.Array:
    """Where each list begins in the flattened values, in which null lists have none."""
    lengths = _lengths(values).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(pc.fill_null(lengths, 0))])


def _lengths(values: pa.Array) -> pa.Array:
    return pc.list_value_length(values.cast(_as_list(values.type)) if pa.types.is_map(values.type) else values)


def _as_list(kind: pa.MapType) -> pa.DataType:
    return pa.list_(pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False))


def _entries(values: pa.MapArray) -> pa.StructArray:
    return values.cast(_as_list(values.type)).flatten()


def _interval_parts(values: pa.Array) -> pa.StructArray:
    found = np.frombuffer(values.buffers()[1] or b"", _INTERVAL_LAYOUT)[values.offset : values.offset + len(values)]
    parts = [pa.array(np.ascontiguousarray(found[name])) for name in _INTERVAL_LAYOUT.names or ()]
    return pa.StructArray.from_arrays(parts, fields=list(_INTERVAL), mask=values.is_null())


def _check_uuids(name: str, values: pa.Array, kind: FieldType) -> None:
    """ClickHouse writes null for a text that is not a UUID."""
    for found, each in leaves(values, kind):
        is_text = each.name == "UUID" and pa.types.is_string(found.type)
        if is_text and not pc.all(pc.match_substring_regex(found, _UUID), min_count=0).as_py():
            raise RowError(f"column {name}: a text is not a UUID", reason="convert", column=name)
