"""Postgres column types for Arrow columns, and back."""

from __future__ import annotations

import re

import pyarrow as pa

from gauss.clients.postgres.type_map import column_type
from gauss.clients.postgres.types import canonical, parse_type
from gauss.clients.postgres.wire import _DIRECT as DIRECT
from gauss.contracts.field_types import MARK, source_type, type_of
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type
from gauss.model.errors import ConfigError

_EXTENSIONS = {"arrow.uuid": "UUID", "arrow.json": "JSONB"}
_BUILT_IN = re.compile(r"[a-z][a-z0-9 ]*(\([0-9, -]+\))?[a-z ]*(\[\])*", re.IGNORECASE)
TYPE_KEY = b"postgres_type"
"""The metadata key of the column's type in the Postgres that it was read from."""
MAX_DIGITS = 38


def column_of(field: pa.Field) -> FieldType:
    """The type of a new column for an Arrow column. The type of its source, in the metadata, counts more than its Arrow
    type, unless another server may lack it."""
    notes = field.metadata or {}
    native = notes.get(TYPE_KEY, b"").decode(errors="replace")
    if _BUILT_IN.fullmatch(native):
        return parse_type(native)
    if MARK in notes and (found := column_type(source_type(field))) is not None:
        return found
    return _column(field.type)


def _column(kind: pa.DataType) -> FieldType:
    kinds = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        name = _EXTENSIONS.get(kind.extension_name)
        return FieldType(name) if name else _column(kind.storage_type)
    if kinds.is_dictionary(kind):
        return _column(kind.value_type)
    if is_document(kind):
        return FieldType("JSONB")
    if is_list(kind):
        element = _column(kind.value_type)
        # An array type of Postgres does not say how many dimensions its values have.
        return element if element.name == "ARRAY" else FieldType("ARRAY", {"element": element})
    if kinds.is_timestamp(kind):
        # Without a precision: a stream may become finer later.
        return FieldType("TIMESTAMP", {"timezone": True} if kind.tz else {})
    if kinds.is_decimal(kind):
        digits = kind.precision - min(kind.scale, 0)  # before version 15 a scale is between 0 and the precision
        return FieldType("NUMERIC", {"precision": max(digits, kind.scale), "scale": max(kind.scale, 0)})
    if kinds.is_time(kind):
        return FieldType("TIME")
    if kinds.is_duration(kind) or kinds.is_interval(kind):
        return FieldType("INTERVAL")
    found = column_type(type_of(kind))
    if found is None:
        raise ConfigError(f"Postgres has no column type for Arrow type {kind}", hint="cast the column in the source")
    return found


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists of any layout."""
    kinds = pa.types
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)) or bool(
        kinds.is_list_view(kind) or kinds.is_large_list_view(kind)
    )


def is_document(kind: pa.DataType) -> bool:
    """Whether values contain fields with names, which Postgres stores as JSON."""
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return True
    return is_list(kind) and is_document(kind.value_type)


def arrow_of(field_type: FieldType) -> pa.DataType:
    """The Arrow type of a column's values; text if none is exact."""
    wanted = canonical(field_type)
    name, attrs = wanted.name, wanted.attrs
    if name == "ARRAY":
        return pa.list_(arrow_of(as_field_type(attrs["element"])))
    if name == "NUMERIC":
        precision, scale = attrs.get("precision", 0), attrs.get("scale", 0)
        digits = max(precision - min(scale, 0), scale)
        return pa.decimal128(digits, max(scale, 0)) if 0 < digits <= MAX_DIGITS else pa.string()
    if attrs.get("timezone"):
        return pa.timestamp("us", tz="UTC") if name == "TIMESTAMP" else pa.string()
    return DIRECT.get(name, pa.string())
