"""Decodes single messages with protobuf's parser and decides which are bad; ptars must agree with it.

| record | meaning |
|---|---|
| empty | every scalar its zero, every message null |
| malformed: truncated, an unknown wire type, a field number of 0 | bad_protobuf |
| a string that is not UTF-8 | bad_utf8 |
| a required field (proto2) missing | missing_field |
| a field of another wire type than declared, or not declared | passed over |
| a field twice | the last one counts; messages are merged |
| two members of a oneof | the last one counts, the others are null |
| an absent scalar without presence | its zero; with presence (optional, oneof, wrappers) null |
| a timestamp or duration beyond an int64 of nanoseconds | out_of_range |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.protobuf.descriptor import is_map, wrapped

_TIMES = ("google.protobuf.Timestamp", "google.protobuf.Duration")
Row = dict[str, Any]


class MessageCodec:
    """Converts between messages of one type and rows."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._class = GetMessageClass(descriptor)
        self._read = _reader(descriptor)
        self._descriptor = descriptor

    def decode(self, data: bytes) -> Row:
        """One row; raises BadRecord."""
        try:
            message = self._class.FromString(data)
            if not message.IsInitialized():
                missing = ", ".join(message.FindInitializationErrors())
                raise BadRecord("missing_field", f"required fields are missing: {missing}")
            return self._read(message)
        except DecodeError as error:
            reason = "bad_utf8" if "UTF-8" in str(error) else "bad_protobuf"
            raise BadRecord(reason, str(error)) from None
        except UnicodeDecodeError as error:
            raise BadRecord("bad_utf8", str(error)) from None

    def encode(self, row: Row) -> bytes:
        """One message; raises ValueError for a value that its field can't hold."""
        message = self._class()
        try:
            _fill(message, row, self._descriptor)
            made: bytes = message.SerializeToString()
        except (TypeError, ValueError) as error:
            raise ValueError(f"row can't be a {self._descriptor.full_name}: {error}") from None
        return made


def _reader(descriptor: Descriptor) -> Callable[[Any], Row]:
    readers = [(field.name, _field_reader(field)) for field in descriptor.fields]
    return lambda message: {name: read(message) for name, read in readers}


def _field_reader(field: FieldDescriptor) -> Callable[[Any], Any]:
    name = field.name
    if is_map(field):
        entry = field.message_type.fields_by_name
        value = _value(entry["value"])
        text_keys = entry["key"].type == FieldDescriptor.TYPE_STRING

        def pairs(message: Any) -> list[Any]:
            found = getattr(message, name)
            if text_keys:
                return [(key, value(found[key])) for key in sorted(found)]
            return [{"key": key, "value": value(found[key])} for key in sorted(found)]

        return pairs
    value = _value(field)
    if field.is_repeated:
        return lambda message: [value(item) for item in getattr(message, name)]
    if field.has_presence:
        return lambda message: value(getattr(message, name)) if message.HasField(name) else None
    return lambda message: value(getattr(message, name))


def _value(field: FieldDescriptor) -> Callable[[Any], Any]:
    message = field.message_type
    if field.type == FieldDescriptor.TYPE_STRING:
        return lambda value: _text(value, field.name)
    if message is None:
        return lambda value: value
    if message.full_name in _TIMES:
        return lambda value: _nanos(value, field.name)
    if wrapped(message) is not None:
        return lambda value: value.value
    return _reader(message)


def _text(value: Any, column: str) -> Any:
    if isinstance(value, bytes):  # proto2 does not check that text is UTF-8
        raise BadRecord("bad_utf8", "text is not UTF-8", column)
    return value


def _nanos(value: Any, column: str) -> int:
    nanos: int = value.seconds * 1_000_000_000 + value.nanos
    if not -(2**63) <= nanos < 2**63:
        raise BadRecord("out_of_range", f"{value.seconds} s {value.nanos} ns is beyond an int64 of nanoseconds", column)
    return nanos


def _fill(message: Message, row: Row, descriptor: Descriptor) -> None:
    for name, value in row.items():
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise ValueError(f"no field {name} in {descriptor.full_name}")
        if value is None:
            continue
        target = getattr(message, name)
        if is_map(field):
            _fill_map(target, value, field.message_type.fields_by_name["value"])
        elif field.is_repeated:
            for item in value:
                if field.message_type is None:
                    target.append(item)
                else:
                    _set(target.add(), item, field.message_type)
        elif field.message_type is not None:
            target.SetInParent()
            _set(target, value, field.message_type)
        else:
            setattr(message, name, _scalar(value, field))


def _scalar(value: Any, field: FieldDescriptor) -> Any:
    # Integers may come as decimals, from a column that Spark has no type for.
    return int(value) if field.cpp_type not in _NOT_WHOLE else value


_NOT_WHOLE = (
    *(FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_BOOL),
    FieldDescriptor.CPPTYPE_STRING,
)


def _fill_map(target: Any, value: Any, field: FieldDescriptor) -> None:
    pairs = value.items() if isinstance(value, dict) else value
    for pair in pairs:
        key, item = (pair["key"], pair["value"]) if isinstance(pair, dict) else pair
        if field.message_type is None:
            target[key] = _scalar(item, field)
        else:
            _set(target[key], item, field.message_type)


def _set(message: Any, value: Any, descriptor: Descriptor) -> None:
    if descriptor.full_name in _TIMES:
        message.seconds, message.nanos = divmod(int(value), 1_000_000_000)
        if descriptor.full_name == "google.protobuf.Duration" and message.seconds < 0 and message.nanos:
            message.seconds, message.nanos = message.seconds + 1, message.nanos - 1_000_000_000
    elif (inner := wrapped(descriptor)) is not None:
        message.value = _scalar(value, inner)
    else:
        _fill(message, value, descriptor)
