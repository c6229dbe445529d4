"""The protobuf format: ptars decodes the records that the walk finds plain, protobuf's parser the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor

from gauss.contracts.field_types import arrow_field
from gauss.contracts.format import Decoded, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each, to_columns
from gauss.model.errors import ConfigError
from gauss.plugins.formats.columns import adapt, bytes_of, merge, select
from gauss.plugins.formats.protobuf import walk
from gauss.plugins.formats.protobuf.descriptor import MessageTypes, compile_proto, field_type, is_map, read_descriptor
from gauss.plugins.formats.protobuf.message import MessageCodec
from gauss.plugins.formats.protobuf.spec import ProtobufConfig
from gauss.plugins.formats.protobuf.wire import ConfluentWire

_EDGE = 3_000_000_000
"""ptars clamps nanoseconds to an int64: values this near to its ends are decoded again."""
_TEXT = "record.proto"
"""What the compiler calls a source that is no file."""


class ProtobufFormat:
    """Messages of one type; `message.py` lists the verdicts on bad records."""

    def __init__(self, config: ProtobufConfig) -> None:
        self._wire = ConfluentWire(config.registry) if config.registry else None
        self._descriptor = _messages(config, self._wire).find(config.message)
        if self._wire is not None:
            self._wire.expect(self._descriptor)
        self._fields = tuple(SourceField(field.name, field_type(field)) for field in self._descriptor.fields)
        self._one = MessageCodec(self._descriptor)
        self._tables = walk.make_tables(self._descriptor)
        self._handler = _handler(self._descriptor) if self._tables is not None else None
        self._columns = {field.name: arrow_field(field) for field in self._fields}
        if self._handler is not None and not self._agrees():
            self._handler = None

    def schema(self) -> SourceSchema:
        attrs = {"package": self._descriptor.file.package, "message": self._descriptor.name}
        return SourceSchema(self._fields, attrs)

    def decode(self, data: bytes) -> dict[str, Any]:
        return self._one.decode(self._wire.unwrap(data) if self._wire else data)

    def encode(self, row: dict[str, Any]) -> bytes:
        record = self._one.encode(row)
        return self._wire.wrap(record) if self._wire else record

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        if self._handler is None:
            return self._slowly(data, np.arange(len(data)), fields)
        bodies, foreign = self._wire.unwrap_batch(data) if self._wire else (data, None)
        assert self._tables is not None
        offsets, body = bytes_of(bodies)
        suspects = walk.suspects(body, offsets, self._tables)
        if foreign is not None:
            suspects |= foreign
        kept = np.flatnonzero(~suspects)
        chosen = bodies if len(kept) == len(data) else bodies.take(pa.array(kept))
        batch = self._handler.array_to_record_batch(chosen)
        odd = self._odd(batch)
        if odd.any():
            suspects[kept[odd]] = True
            batch, kept = batch.filter(pa.array(~odd)), kept[~odd]
        fast = select(self._adapted(batch, fields), fields, len(kept))
        if len(kept) == len(data):
            return Decoded(fast, kept, [])
        return merge(fast, kept, self._slowly(data, np.flatnonzero(suspects), fields))

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        names = rows.schema.names
        unknown = [name for name in names if name not in self._columns]
        if unknown:
            known = ", ".join(self._columns)
            raise ConfigError(f"message {self._descriptor.full_name} has no field {unknown[0]}", hint=f"it has {known}")
        native = self._native(rows) if self._handler is not None else None
        if native is None:
            return encode_each(self.encode, rows)
        assert self._handler is not None
        made = self._handler.record_batch_to_array(native)
        return self._wire.wrap_batch(made) if self._wire else made.cast(pa.binary())

    def _native(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Rows in the types of ptars; None if a value does not fit."""
        assert self._handler is not None
        native: pa.Schema = self._handler.schema()
        arrays = []
        for field in native:
            at = rows.schema.get_field_index(field.name)
            try:
                values = adapt(rows.column(at), field.type) if at >= 0 else pa.nulls(len(rows), field.type)
            except pa.ArrowException:
                return None
            arrays.append(values if field.nullable or not values.null_count else _zero(values))
        if any(_negative_zero(values) for values in arrays):
            return None  # ptars omits -0.0 as if it were the default
        return pa.RecordBatch.from_arrays(arrays, schema=native)

    def _slowly(self, data: pa.BinaryArray, indexes: np.ndarray, fields: pa.Schema) -> Decoded:
        records = zip(indexes.tolist(), data.take(pa.array(indexes)).to_pylist(), strict=True)
        return to_columns(*decode_each(self.decode, records), fields)

    def _adapted(self, batch: pa.RecordBatch, fields: pa.Schema) -> dict[str, pa.Array]:
        """The requested columns in Spark's types."""
        wanted = {field.name.removeprefix("$.").split(".")[0].removesuffix("[*]") for field in fields}
        return {
            name: adapt(values, self._columns[name].type)
            for name, values in zip(batch.schema.names, batch.columns, strict=True)
            if name in wanted
        } or dict(zip(batch.schema.names, batch.columns, strict=True))

    def _agrees(self) -> bool:
        """Whether every field of ptars can be converted; most of google.type can not."""
        assert self._handler is not None
        try:
            batch = self._handler.array_to_record_batch(pa.array([], pa.binary()))
            for name, values in zip(batch.schema.names, batch.columns, strict=True):
                adapt(values, self._columns[name].type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError):
            return False
        return True

    def _odd(self, batch: pa.RecordBatch) -> np.ndarray:
        """Rows that only protobuf's parser reads correctly: a key twice in a map, a time at the end of its range."""
        odd = np.zeros(len(batch), bool)
        for field in self._descriptor.fields:
            values = batch.column(field.name)
            if is_map(field):
                odd |= _twice(values)
            elif pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
                nanos = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
                odd |= (nanos > 2**63 - 1 - _EDGE) | (nanos < -(2**63) + _EDGE)
        return odd


def _messages(config: ProtobufConfig, wire: ConfluentWire | None) -> MessageTypes:
    if config.descriptor is not None:
        return MessageTypes(read_descriptor(config.descriptor))
    if config.proto is not None:
        try:
            text = {config.proto.name: config.proto.read_text()}
        except OSError as error:
            raise ConfigError(f"{config.proto} can't be read: {error.strerror}") from error
        return MessageTypes(compile_proto(text, config.proto.name, [config.proto.parent, *config.import_dirs]))
    if config.proto_text is not None:
        return MessageTypes(compile_proto({_TEXT: config.proto_text}, _TEXT, []))
    assert wire is not None
    return wire.newest()


def _handler(descriptor: Descriptor) -> Any:
    import ptars

    config = ptars.PtarsConfig(list_value_name="element", timestamp_tz="UTC", timestamp_unit="ns", duration_unit="ns")
    try:
        return ptars.HandlerPool([descriptor.file], config=config).get_for_message(descriptor)
    except (ValueError, TypeError, RuntimeError):
        return None


def _twice(values: pa.MapArray) -> np.ndarray:
    """Which maps hold a key twice."""
    lengths = pc.list_value_length(values.cast(_pairs(values))).fill_null(0).to_numpy(zero_copy_only=False)
    found = np.zeros(len(values), bool)
    if not (lengths > 1).any():
        return found
    rows = np.repeat(np.arange(len(values)), lengths)
    keys = values.cast(_pairs(values)).flatten().field(0).dictionary_encode().indices.to_numpy()
    both = rows * (int(keys.max()) + 1) + keys
    order = np.argsort(both, kind="stable")
    again = np.flatnonzero(np.diff(both[order]) == 0)
    found[rows[order[again]]] = True
    return found


def _pairs(values: pa.MapArray) -> pa.DataType:
    return pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)]))


def _negative_zero(values: pa.Array) -> bool:
    """Whether a float of the column, at any depth, is -0.0."""
    kinds = pa.types
    if kinds.is_floating(values.type):
        numbers = pc.fill_null(values, 1).to_numpy(zero_copy_only=False)
        return bool(((numbers == 0) & np.signbit(numbers)).any())
    if kinds.is_struct(values.type):
        return any(_negative_zero(child) for child in values.flatten())
    if kinds.is_map(values.type):
        return _negative_zero(values.items)
    return kinds.is_list(values.type) and _negative_zero(values.flatten())


def _zero(values: pa.Array) -> pa.Array:
    """Replaces null by the zero of a field without presence."""
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return pc.fill_null(values, pa.scalar([], kind))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.fill_null(values, pa.scalar("" if pa.types.is_string(kind) else b"", kind))
    return pc.fill_null(values, pa.scalar(False if pa.types.is_boolean(kind) else 0, kind))
