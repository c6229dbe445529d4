"""What each field type is in Arrow, chosen so that Spark holds the same type."""

from __future__ import annotations

import pyarrow as pa

from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError

_SIMPLE = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    # Spark has no unsigned integers: the next wider signed one, and a decimal for the widest.
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "varchar": pa.string(),
    "json": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_type(field_type: FieldType) -> pa.DataType:
    """The Arrow type of a field type."""
    if field_type.name == "decimal":
        return pa.decimal128(field_type.attrs["precision"], field_type.attrs.get("scale", 0))
    if field_type.name == "array":
        element = field_type.attrs["element"]
        inner = FieldType(element) if isinstance(element, str) else FieldType(element["name"], element.get("attrs", {}))
        return pa.list_(pa.field("element", arrow_type(inner)))
    try:
        return _SIMPLE[field_type.name]
    except KeyError:
        raise ConfigError(f'type "{field_type.name}" has no form in Spark', hint=", ".join(_SIMPLE)) from None
