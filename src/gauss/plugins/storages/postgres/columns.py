"""Arrow types in which columns are written to a Postgres table."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from gauss.clients.postgres.types import canonical
from gauss.contracts.format import FieldType
from gauss.contracts.table import Converter

_NUMBERS = {
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "REAL": pa.float32(),
    "DOUBLE PRECISION": pa.float64(),
    "BOOLEAN": pa.bool_(),
}
_ENCODER = msgspec.json.Encoder(enc_hook=str, decimal_format="number")
_TEXTS = ("TEXT", "VARCHAR", "CHAR")


def arrow_type(wanted: FieldType, given: pa.DataType) -> pa.DataType:
    """Checked here, value by value, where a record can be blamed; the rest is the wire's affair."""
    name, kinds = canonical(wanted).name, pa.types
    if name in _NUMBERS and (kinds.is_integer(given) or kinds.is_floating(given) or kinds.is_decimal(given)):
        return _NUMBERS[name]
    if name in _TEXTS and kinds.is_binary(given):
        return pa.string()
    if name == "TIMESTAMP" and kinds.is_integer(given):
        return pa.timestamp("us", tz="UTC")
    if name == "UUID" and kinds.is_binary(given):
        return pa.binary(16)
    if name in ("JSON", "JSONB") and kinds.is_nested(given):
        return pa.string()
    return given


def _json_text(values: pa.Array, _: pa.DataType) -> pa.Array:
    keys = pa.types.is_map(values.type)
    plain = ((dict(value) if keys and value is not None else value) for value in values.to_pylist())
    return pa.array([None if value is None else _ENCODER.encode(value).decode() for value in plain], pa.string())


_JSON = Converter("JSON text", _json_text)
_UUID = Converter("the same 16 bytes", lambda values, _: values.cast(pa.binary(16)))
SPECIAL = {
    ("uuid", "UUID"): _UUID,
    **{(source, target): _JSON for source in ("struct", "tuple", "map", "array") for target in ("JSON", "JSONB")},
}
