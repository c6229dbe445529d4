"""Encodes rows as JSON. Decimals and integers are exact numbers, timestamps text with their precision (or a number of
their unit), bytes base64, NaN and infinities null; a field that is null is written as null."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.format import FieldType
from gauss.contracts.format_batch import encode_each
from gauss.plugins.formats.columns import as_declared, moment_text
from gauss.plugins.formats.json.plan import path_parts
from gauss.plugins.formats.json.spec import JsonType
from gauss.plugins.formats.values import check, wrong

_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MARKS = {b"json": JsonType(name="json"), b"json array": JsonType(name="array", attrs={"element": "json"})}
_encoder = msgspec.json.Encoder(decimal_format="number")


def with_texts(types: dict[str, JsonType], fields: pa.Schema) -> dict[str, JsonType]:
    """The declared types, and the type json for undeclared columns that are marked as JSON text."""
    marks = {field.name: _MARKS.get((field.metadata or {}).get(b"gauss", b"")) for field in fields}
    found = {name: type_ for name, type_ in marks.items() if type_ is not None and name not in types}
    return {**types, **found} if found else types


def encode_row(row: dict[str, Any], types: dict[str, JsonType]) -> bytes:
    """One row, by its declared types."""
    tree: dict[str, Any] = {}
    for name, value in row.items():
        parts = path_parts(name)
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part.removesuffix("[*]"), {})
        if (type_ := types.get(name)) is not None:
            _check(value, type_, name)
        node[parts[-1].removesuffix("[*]")] = _plain(value, type_)
    return _encoder.encode(tree)


def _check(value: Any, type_: JsonType, name: str) -> None:
    check(value, FieldType(type_.name, type_.attrs), name)
    if type_.name == "json" and value is not None:
        try:
            msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, TypeError) as error:
            raise wrong(f"the text is no JSON: {error}", name) from None


def _plain(value: Any, type_: JsonType | None) -> Any:
    match value:
        case bool() | int() | str() | None:
            return msgspec.Raw(value.encode()) if type_ and type_.name == "json" and value is not None else value  # type: ignore[union-attr]
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return msgspec.Raw(format(value, "f").encode())
        case dt.datetime():
            return _time(value, type_)
        case dt.date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {key: _plain(inner, None) for key, inner in value.items()}
        case list() | tuple():
            element = type_.element() if type_ and type_.name == "array" else None
            return [_plain(inner, element) for inner in value]
    return str(value)


def _time(value: dt.datetime, type_: JsonType | None) -> str | int:
    utc = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    attrs = type_.attrs if type_ else {}
    unit = attrs.get("unit", "iso")
    micros = (utc - _EPOCH) // dt.timedelta(microseconds=1)
    if unit != "iso":
        return micros // _UNIT_US[unit]
    digits = attrs.get("precision", 6)
    text = utc.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return text + (f".{utc.microsecond:06d}"[: digits + 1] if digits else "") + "Z"


def encode_batch(rows: pa.RecordBatch, types: dict[str, JsonType]) -> pa.BinaryArray:
    """Encodes a batch: with polars the types that it writes as `encode_row` does, other rows one by one."""
    names = rows.schema.names
    declared = as_declared(rows, {name: FieldType(type_.name, type_.attrs) for name, type_ in types.items()})
    if declared is None or any(map(_has_nul, rows.schema)):
        return encode_each(lambda row: encode_row(row, types), rows)
    rows = declared
    if names and all(_polars_agrees(field.type) and "$" not in field.name for field in rows.schema):
        import polars as pl

        frame = pl.from_arrow(pa.Table.from_batches([rows]))
        assert isinstance(frame, pl.DataFrame)
        text = frame.select(pl.struct(pl.all()).struct.json_encode()).to_series().to_arrow()
        return text.cast(pa.binary())
    decimals = [field.name for field in rows.schema if pa.types.is_decimal(field.type)]
    times = [field.name for field in rows.schema if pa.types.is_timestamp(field.type)]
    plain = [field.name for field in rows.schema if _polars_agrees(field.type)]
    if len(decimals) + len(times) + len(plain) == len(names) and not any("$" in name for name in names):
        return _join(rows, types)
    return encode_each(lambda row: encode_row(row, types), rows)


def _has_nul(field: pa.Field) -> bool:
    """Whether polars panics over the name of a column, or of a field inside it."""
    kind = field.type
    return "\0" in field.name or any(_has_nul(kind.field(index)) for index in range(kind.num_fields))


def _polars_agrees(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_polars_agrees(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _polars_agrees(kind.value_type)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date(kind)
    )


def _join(rows: pa.RecordBatch, types: dict[str, JsonType]) -> pa.BinaryArray:
    """Encodes each column and joins them: exact for decimals and timestamps, without a loop over rows."""
    pieces: list[Any] = []
    for index, (field, values) in enumerate(zip(rows.schema, rows.columns, strict=True)):
        pieces.append(("," if index else "{") + _encoder.encode(field.name).decode() + ":")
        pieces.append(pc.fill_null(_text(values, types.get(field.name)), "null"))
    pieces.append("}")
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())


def _text(values: pa.Array, type_: JsonType | None) -> pa.StringArray:
    if pa.types.is_decimal(values.type):
        return values.cast(pa.string())
    if pa.types.is_timestamp(values.type):
        attrs = type_.attrs if type_ else {}
        text = moment_text(values, attrs)
        return text if attrs.get("unit", "iso") != "iso" else pc.binary_join_element_wise('"', text, '"', "")
    import polars as pl

    frame = pl.DataFrame({"v": pl.Series(values=pl.from_arrow(values))})
    encoded = frame.select(pl.struct(pl.all()).struct.json_encode()).to_series().to_arrow()
    return pc.utf8_slice_codeunits(encoded.cast(pa.string()), 5, -1)  # without {"v": and }
