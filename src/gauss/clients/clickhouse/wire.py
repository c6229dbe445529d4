"""Converts Arrow columns to the exact types of their ClickHouse columns; the server would truncate values silently."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.clickhouse.text_values import check_texts
from gauss.clients.clickhouse.types import render_type
from gauss.clients.errors import RowError
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type

Values: TypeAlias = pa.Array | pa.ChunkedArray
_INTEGER = re.compile(r"U?Int(8|16|32|64)")
_WIDE = re.compile(r"U?Int(128|256)")
_EXACT = {
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "BFloat16": pa.float32(),
    "Bool": pa.bool_(),
    "Date": pa.date32(),
    "Date32": pa.date32(),
}
_DECIMALS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_SECONDS = {"DateTime": (0, 2**32), "DateTime64": (-2_208_988_800, 10_413_792_000)}
"""Range of each type: 1970 to 2106, 1900 to 2299; outside of it ClickHouse silently stores another time."""


def wire_type(field_type: FieldType, given: pa.DataType) -> pa.DataType:
    """The Arrow type in which a column is sent; the given type if ClickHouse converts it safely."""
    name, attrs = field_type.name, field_type.attrs
    if pa.types.is_dictionary(given):
        return wire_type(field_type, given.value_type)
    if name in ("Nullable", "LowCardinality"):
        return wire_type(as_field_type(attrs.get("inner") or attrs["element"]), given)
    if pa.types.is_null(given) or (_is_text(given) and name not in ("Date", "Date32")):
        return given
    if _INTEGER.fullmatch(name):
        return pa.type_for_alias(name.lower())
    if _WIDE.fullmatch(name):
        return given if pa.types.is_decimal(given) else pa.decimal128(20, 0)
    if name in _EXACT:
        return _EXACT[name]
    if name.startswith("Decimal"):
        precision = _DECIMALS.get(name) or attrs.get("precision", 10)
        make = pa.decimal128 if precision <= 38 else pa.decimal256
        return make(precision, attrs.get("scale", 0))
    if name in _SECONDS:
        return pa.timestamp(_unit(field_type), tz="UTC")
    if name == "String" and not (pa.types.is_binary(given) or pa.types.is_fixed_size_binary(given)):
        return pa.string()
    if name == "IPv4" and pa.types.is_integer(given):
        return pa.uint32()
    if name == "Array" and pa.types.is_list(given):
        return pa.list_(wire_type(as_field_type(attrs["element"]), given.value_type))
    if name == "Map" and (pair := _pair(given)):
        return pa.map_(
            wire_type(as_field_type(attrs["key"]), pair[0]), wire_type(as_field_type(attrs["value"]), pair[1])
        )
    if name == "Tuple" and pa.types.is_struct(given):
        kinds = members(field_type)
        if len(kinds) == given.num_fields:
            return pa.struct([(part.name, wire_type(kind, part.type)) for part, kind in zip(given, kinds, strict=True)])
    return given


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _unit(field_type: FieldType) -> str:
    precision = field_type.attrs.get("precision", 3) if field_type.name == "DateTime64" else 0
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _pair(given: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    """Key and value types of a map, or of a list of pairs, which is Spark's form of a map without text keys."""
    if pa.types.is_map(given):
        return given.key_type, given.item_type
    if pa.types.is_list(given) and pa.types.is_struct(given.value_type) and given.value_type.num_fields == 2:
        return given.value_type[0].type, given.value_type[1].type
    return None


def wire_column(name: str, values: pa.ChunkedArray, field_type: FieldType) -> pa.ChunkedArray:
    """A column ready to be sent; raises RowError if a value would be changed.

    Times are truncated to the column's precision; all other values are sent exactly.
    """
    try:
        if pa.types.is_list(values.type) and field_type.name == "Map":
            values = _pairs_to_map(values)
        if pa.types.is_struct(values.type) and field_type.name == "Tuple":
            values = pa.chunked_array([_without_nulls(chunk) for chunk in values.chunks], values.type)
        wanted = wire_type(field_type, values.type)
        if pa.types.is_timestamp(wanted):
            values = _times(values, wanted)
        elif values.type != wanted:
            values = values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RowError(
            f"column {name}: {values.type} does not fit {render_type(field_type)}: {str(error).splitlines()[0]}",
            reason="convert",
            column=name,
        ) from error
    _check_range(name, values, field_type)
    for found, kind in leaves(values, field_type):
        check_texts(name, found, kind)
    return values


def _times(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Timestamps in the unit of a type; integers count that unit."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64()).cast(wanted)
    if not pa.types.is_timestamp(values.type):
        return values.cast(wanted)
    units = ["s", "ms", "us", "ns"]
    finer = units.index(values.type.unit) > units.index(wanted.unit)
    if finer:
        values = pc.floor_temporal(values, unit={"s": "second", "ms": "millisecond", "us": "microsecond"}[wanted.unit])
    if values.type.tz is None:
        values = values.cast(pa.timestamp(values.type.unit, tz="UTC"))
    return values.cast(wanted)


def leaves(values: Values, kind: FieldType) -> Iterator[tuple[Values, FieldType]]:
    """The values of a column, or those inside its lists, maps and tuples, each with their type."""
    while kind.name in ("Nullable", "LowCardinality"):
        kind = as_field_type(kind.attrs["inner"])
    given = values.type
    if kind.name == "Array" and pa.types.is_list(given):
        yield from leaves(pc.list_flatten(values), as_field_type(kind.attrs["element"]))
    elif kind.name == "Map" and pa.types.is_map(given):
        entry = pa.field("entries", pa.struct([given.key_field, given.item_field]), nullable=False)
        pairs = pc.list_flatten(values.cast(pa.list_(entry)))
        for place, part in enumerate(("key", "value")):
            yield from leaves(pc.struct_field(pairs, [place]), as_field_type(kind.attrs[part]))
    elif kind.name == "Tuple" and pa.types.is_struct(given):
        for place, member in enumerate(members(kind)[: given.num_fields]):
            yield from leaves(pc.struct_field(values, [place]), member)
    else:
        yield values, kind


def members(kind: FieldType) -> list[FieldType]:
    """The types of the elements of a tuple."""
    given = kind.attrs.get("elements") or kind.attrs.get("fields") or ()
    return [as_field_type(each["type"] if isinstance(each, dict) and "type" in each else each) for each in given]


def _check_range(name: str, values: pa.ChunkedArray, field_type: FieldType) -> None:
    for found, kind in leaves(values, field_type):
        if kind.name not in _SECONDS or not pa.types.is_timestamp(found.type):
            continue
        low, high = _SECONDS[kind.name]
        ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[found.type.unit]
        ends = pc.min_max(found.cast(pa.int64())).as_py()
        if ends["min"] is not None and (ends["min"] < low * ticks or ends["max"] >= high * ticks):
            raise RowError(
                f"column {name}: a time is outside the range of {render_type(field_type)}",
                reason="out_of_range",
                column=name,
            )


def _pairs_to_map(values: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = []
    for chunk in values.chunks:
        pairs = chunk.flatten()
        offsets = pa.concat_arrays(
            [pa.array([0], pa.int32()), pc.cumulative_sum(pc.fill_null(pc.list_value_length(chunk), 0))]
        )
        keys, items = pairs.field(0), pairs.field(1)
        chunks.append(pa.MapArray.from_arrays(offsets, keys, items, mask=chunk.is_null() if chunk.null_count else None))
    return pa.chunked_array(chunks, pa.map_(values.type.value_type[0].type, values.type.value_type[1].type))


def _without_nulls(values: pa.StructArray) -> pa.StructArray:
    """Replaces null structs by structs of nulls, since a tuple is never null."""
    members = [
        _without_nulls(member) if pa.types.is_struct(member.type) else member
        for member in (
            values.flatten() if values.null_count else [values.field(i) for i in range(values.type.num_fields)]
        )
    ]
    return pa.StructArray.from_arrays(members, fields=list(values.type))


def wire_table(rows: pa.Table, types: Mapping[str, FieldType]) -> pa.Table:
    """All columns ready to be sent."""
    names = rows.schema.names
    return pa.table([wire_column(name, rows[name], types[name]) for name in names], names=names)
