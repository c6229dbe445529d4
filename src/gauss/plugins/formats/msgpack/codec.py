"""The msgpack format: one map per record, its fields by name or path.

| record | meaning |
|---|---|
| truncated, followed by more bytes, of a reserved code, nested too deep | bad_msgpack |
| text that is not UTF-8, in any field | bad_utf8 |
| an array, number, text or nil instead of a map; keys that are no text | not_object |
| a field missing or nil | null |
| a value of another kind, or outside its type | wrong_type, out_of_range |
| a float for an integer, or an integer for text | wrong_type |
| fields that are not decoded | anything well-formed |
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import parse_member, parse_type, type_of
from gauss.contracts.format import BadRecord, Decoded, FieldType, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each, find, to_columns
from gauss.plugins.formats.columns import merge
from gauss.plugins.formats.msgpack import write
from gauss.plugins.formats.msgpack.spec import MsgpackConfig
from gauss.plugins.formats.msgpack.walk_decoder import MsgpackWalkDecoder
from gauss.plugins.formats.values import Convert, check, from_value, iso_text

Row = dict[str, Any]


class MsgpackFormat:
    """MessagePack maps."""

    def __init__(self, config: MsgpackConfig) -> None:
        self._fields = (
            None if config.fields is None else [SourceField(f.name, f.type.field_type()) for f in config.fields]
        )
        self._types = {field.name: field.field_type for field in self._fields or []}
        self._converters = [(field.name, from_value(field.field_type, field.name)) for field in self._fields or []]
        self._batches = MsgpackWalkDecoder(self._types)
        self._decoder = msgspec.msgpack.Decoder(strict=True)

    def schema(self) -> SourceSchema | None:
        return None if self._fields is None else SourceSchema(tuple(self._fields))

    def decode(self, data: bytes) -> Row:
        """The fields of a record; without `fields` in the config the whole map."""
        found = self._open(data)
        if self._fields is None:
            return found
        return {name: convert(find(found, name)) for name, convert in self._converters}

    def encode(self, row: Row) -> bytes:
        """One row as a map; paths become nested maps."""
        tree: Row = {}
        for name, value in row.items():
            parts = name[2:].split(".") if name.startswith("$.") else [name]
            node = tree
            for part in parts[:-1]:
                node = node.setdefault(part.removesuffix("[*]"), {})
            if name in self._types:
                check(value, self._types[name], name)
            node[parts[-1].removesuffix("[*]")] = _plain(value, self._types.get(name))
        return msgspec.msgpack.encode(tree)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        if texts := [field.name for field in rows.schema if _is_any(field) and field.name not in self._types]:
            return encode_each(lambda row: self.encode(_with_values(row, texts)), rows)
        found = write.encode(rows, self._types)
        return encode_each(self.encode, rows) if found is None else found

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        found = self._batches.decode(data, fields) if len(fields) else None
        if found is None:
            return self._decode_each(data, np.arange(len(data)), fields)
        if len(found.kept) == len(data):
            return Decoded(found.rows, found.kept, [])
        suspects = np.setdiff1d(np.arange(len(data)), found.kept)
        return merge(found.rows, found.kept, self._decode_each(data, suspects, fields))

    def _decode_each(self, data: pa.BinaryArray, indexes: np.ndarray, fields: pa.Schema) -> Decoded:
        """Decodes some records one by one."""
        # Every declared field is checked, requested or not: a bad record is bad for every reader.
        converters = dict(self._converters)
        for field in fields:
            if field.name not in converters:
                converters[field.name] = _untyped(field)
        steps = list(converters.items())

        def decode(record: bytes) -> Row:
            found = self._open(record)
            return {name: convert(find(found, name)) for name, convert in steps}

        chosen = data if len(indexes) == len(data) else data.take(pa.array(indexes))
        rows, good, bad = decode_each(decode, zip(indexes.tolist(), chosen.to_pylist(), strict=True))
        return to_columns(rows, good, bad, fields)

    def _open(self, data: bytes) -> Row:
        try:
            found = self._decoder.decode(data)
        except UnicodeDecodeError as error:
            raise BadRecord("bad_utf8", f"text is not UTF-8: {error.reason}") from None
        except (msgspec.DecodeError, RecursionError, ValueError, TypeError, OverflowError) as error:
            raise BadRecord("bad_msgpack", str(error)) from None
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise BadRecord("not_object", f"expected a map with text keys, found {type(found).__name__}")
        return found


def _is_any(field: pa.Field) -> bool:
    """Whether a column holds any value as its JSON text."""
    return (field.metadata or {}).get(b"gauss") == b"json"


def _with_values(row: Row, texts: list[str]) -> Row:
    """The row with JSON texts replaced by their values."""
    return row | {name: msgspec.json.decode(row[name]) for name in texts if row[name] is not None}


def _untyped(field: pa.Field) -> Convert:
    """The converter of a field without a declared type: by the Arrow type, or any value as JSON text."""
    if _is_any(field):
        return lambda value: None if value is None else msgspec.json.encode(value).decode()
    return from_value(type_of(field.type), field.name)


def _plain(value: Any, type_: FieldType | None) -> Any:
    kind = type_.name if type_ else ""
    match value:
        case Decimal():
            return int(value) if kind.startswith("uint") or value.as_tuple().exponent == 0 else format(value, "f")
        case dt.datetime() | int() if kind == "timestamp":
            assert type_ is not None
            return iso_text(value, type_)
        case dt.datetime():
            return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
        case dt.date():
            return value.isoformat()
        case int() if kind == "time":
            return (dt.datetime.min + dt.timedelta(microseconds=value)).time().isoformat()
        case list() | tuple() if kind == "map":
            assert type_ is not None
            return _pairs(list(value), type_)
        case list() | tuple():
            element = parse_type(type_.attrs["element"]) if type_ and kind == "array" else None
            return [_plain(item, element) for item in value]
        case dict() if type_ is not None and kind in ("tuple", "struct"):
            members = [parse_member(index, member) for index, member in enumerate(type_.attrs["fields"])]
            made = {name: _plain(value.get(name), inner) for name, inner in members}
            return list(made.values()) if kind == "tuple" else made
        case dict():
            return {key: _plain(item, None) for key, item in value.items()}
    return value


def _pairs(value: list[Any], type_: FieldType) -> dict[Any, Any]:
    key_type, item_type = parse_type(type_.attrs.get("key", "string")), parse_type(type_.attrs["value"])
    pairs = [(pair["key"], pair["value"]) if isinstance(pair, dict) else pair for pair in value]
    return {_plain(key, key_type): _plain(item, item_type) for key, item in pairs}
