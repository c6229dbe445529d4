"""How values of each Postgres type become Arrow values.

| Postgres | Arrow |
|---|---|
| bool, int2, int4, int8, float4, float8 | Boolean, Int16, Int32, Int64, Float32, Float64 |
| oid, xid, cid | Int64 |
| numeric(p, s) | Decimal128(p, s) up to 38 digits, else as numeric without a precision |
| numeric | Utf8: exact, in the digits of Postgres |
| text, varchar, bpchar, name, json, jsonb, uuid, enums | Utf8 |
| bytea | Binary |
| date, time | Date32, Time64(Microsecond) |
| timestamp, timestamptz | Timestamp(Microsecond), Timestamp(Microsecond, UTC) |
| arrays declared with one dimension | List(…) of the element |
| interval (ISO 8601), money (its number), inet (with netmask), every other type | Utf8, converted by the server |

A domain is its base type. Values without an Arrow value are data errors: NaN and infinity of numeric, infinity of dates
and timestamps, timestamps from the year 294247 on, the time 24:00:00, arrays with several dimensions in a column that
was declared with one, and text that is not UTF-8 (in databases of encoding SQL_ASCII).

The metadata `postgres_type` of a field is the type of the column, such as `character varying(20)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from gauss.plugins.formats.pg_binary.numeric import MOST_DIGITS as BINARY_DIGITS

MAX_DIGITS = 38
_TYPMOD_HEAD = 4
_BUILT_IN = "pg_catalog"
_DIRECT: dict[str, tuple[str, pa.DataType]] = {
    "bool": ("bool", pa.bool_()),
    "int2": ("int2", pa.int16()),
    "int4": ("int4", pa.int32()),
    "int8": ("int8", pa.int64()),
    "oid": ("oid", pa.int64()),
    "xid": ("oid", pa.int64()),
    "cid": ("oid", pa.int64()),
    "float4": ("float4", pa.float32()),
    "float8": ("float8", pa.float64()),
    "text": ("text", pa.string()),
    "varchar": ("text", pa.string()),
    "bpchar": ("text", pa.string()),
    "name": ("text", pa.string()),
    "json": ("text", pa.string()),
    "jsonb": ("jsonb", pa.string()),
    "bytea": ("bytea", pa.binary()),
    "uuid": ("uuid", pa.string()),
    "date": ("date", pa.date32()),
    "time": ("time", pa.time64("us")),
    "timestamp": ("timestamp", pa.timestamp("us")),
    "timestamptz": ("timestamp", pa.timestamp("us", tz="UTC")),
}


class PgTypeRow(NamedTuple):
    """A row of pg_type."""

    oid: int
    name: str
    schema: str
    kind: str
    """`d` for a domain, `e` for an enum, `b` for a base type."""
    base: int
    base_modifier: int
    dimensions: int
    """Of a domain over an array."""
    element: int
    """Of a true array; else 0."""
    base_text: str
    """The base type of a domain as text."""
    delimiter: str
    """Between the elements of its arrays in text form."""


class Resolved(NamedTuple):
    """A type without its domains."""

    row: PgTypeRow
    modifier: int
    dimensions: int
    text: str


@dataclass(frozen=True)
class Reading:
    """How values of a type are read."""

    kind: str
    """The decoder in `source_decode.py`."""
    arrow: pa.DataType
    cast: str = ""
    """The SQL casts behind the column: what is decoded is their result."""
    element: Reading | None = None
    """Of a list."""
    delimiter: str = ","
    """Between the elements of a list in text form."""


def resolved(types: Mapping[int, PgTypeRow], oid: int, modifier: int, dimensions: int, text: str) -> Resolved:
    """A column's type without its domains."""
    row = types[oid]
    while row.kind == "d":
        modifier, dimensions, text = row.base_modifier, max(dimensions, row.dimensions), row.base_text
        row = types[row.base]
    return Resolved(row, modifier, dimensions, text)


def reading(types: Mapping[int, PgTypeRow], found: Resolved) -> Reading:
    """How values of a type are read."""
    if not found.row.element:
        return _scalar(found.row, found.modifier)
    if found.dimensions > 1:
        return _as_text("::text")
    inner = resolved(types, found.row.element, found.modifier, 0, "")
    if inner.row.element:  # an array of a domain over an array
        return _as_text("::text")
    element = _scalar(inner.row, inner.modifier)
    cast = "".join(f"{each}[]" for each in element.cast.split())
    return Reading("list", pa.list_(element.arrow), cast, element, inner.row.delimiter)


def is_portable(types: Mapping[int, PgTypeRow], found: Resolved) -> bool:
    """Whether the binary form means the same in every database: user-defined types have other oids elsewhere, the
    `reg…` types are oids, and the digits of `money` depend on the locale."""
    row = types[found.row.element] if found.row.element else found.row
    return row.schema == _BUILT_IN and row.kind != "d" and not row.name.startswith("reg") and row.name != "money"


def _scalar(row: PgTypeRow, modifier: int) -> Reading:
    if row.kind == "e":
        return Reading("text", pa.string())
    if row.schema != _BUILT_IN:
        return _as_text("::text")
    if row.name in _DIRECT:
        return Reading(*_DIRECT[row.name])
    if row.name == "numeric":
        return _numeric(modifier)
    if row.name == "money":
        return Reading("money", pa.string(), "::numeric ::text")
    if row.name == "inet":
        return Reading("inet", pa.string(), "::text")
    return _as_text("::text")


def _numeric(modifier: int) -> Reading:
    if modifier < _TYPMOD_HEAD:
        return Reading("number", pa.string(), "::text")
    packed = modifier - _TYPMOD_HEAD
    precision, scale = packed >> 16, ((packed & 0x7FF) ^ 0x400) - 0x400
    # numeric(3, -2) has up to 5 digits, all before the point; numeric(2, 4) has 4 behind it.
    digits = max(precision - min(scale, 0), scale)
    scale = max(scale, 0)
    if digits > MAX_DIGITS:
        return Reading("number", pa.string(), "::text")
    kind = pa.decimal128(digits, scale)
    return Reading("numeric", kind) if digits <= BINARY_DIGITS else Reading("decimal", kind, "::text")


def _as_text(cast: str) -> Reading:
    return Reading("text", pa.string(), cast)
