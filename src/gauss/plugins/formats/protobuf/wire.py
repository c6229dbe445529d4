"""Confluent's wire format of protobuf: the schema id, then the indexes of the message in its file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor

from gauss.contracts.format import BadRecord
from gauss.model.errors import ConfigError
from gauss.plugins.formats.columns import bytes_of
from gauss.plugins.formats.protobuf.descriptor import MessageTypes, compile_proto
from gauss.plugins.formats.registry import HEADER, Registered, SchemaRegistry, header, schema_id
from gauss.plugins.formats.registry_config import RegistryConfig

MOST_INDEXES = 64


class ConfluentWire:
    """Removes the header after checking that it names the expected message."""

    def __init__(self, config: RegistryConfig) -> None:
        self._registry = SchemaRegistry(config)
        self._messages: dict[int, MessageTypes] = {}
        self._expected = ""
        self._head: bytes | None = None

    def expect(self, descriptor: Descriptor) -> None:
        self._expected = descriptor.full_name

    def newest(self) -> MessageTypes:
        """The message types of the subject's newest schema."""
        return _compiled(self._registry.newest())

    def unwrap(self, record: bytes) -> bytes:
        """The bare message; raises BadRecord."""
        number = schema_id(record)
        indexes, end = _indexes(record)
        if number not in self._messages:
            try:
                self._messages[number] = _compiled(self._registry.schema(number))
            except ConfigError as error:
                raise BadRecord("unknown_schema", f"schema {number}: {error.message}") from None
        found = self._messages[number].by_indexes(indexes)
        if found is None or found.full_name != self._expected:
            name = found.full_name if found else f"no message at {indexes}"
            raise BadRecord("other_message", f"expected {self._expected}, found {name} (schema {number})")
        return record[end:]

    def unwrap_batch(self, data: pa.BinaryArray) -> tuple[pa.BinaryArray, np.ndarray]:
        """(bare messages, records to look at one by one): the usual header is six bytes, the first message's."""
        offsets, body = bytes_of(data)
        starts, lengths = offsets[:-1], np.diff(offsets)
        foreign = lengths < HEADER + 1
        whole = starts[~foreign]
        usual = (body[whole] == 0) & (body[whole + HEADER] == 0)
        heads = body[whole[:, None] + np.arange(1, HEADER)].astype(np.uint32) if len(whole) else np.zeros((0, 4), int)
        numbers = (heads * np.array([1 << 24, 1 << 16, 1 << 8, 1])).sum(axis=1) if len(whole) else np.zeros(0, int)
        for number in np.unique(numbers[usual]).tolist():
            try:
                self.unwrap(header(number) + b"\0")
            except BadRecord:
                usual &= numbers != number
        foreign[~foreign] = ~usual
        sizes = np.maximum(lengths - HEADER - 1, 0)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(ends[-1]) + np.repeat(starts + HEADER + 1 - ends[:-1], sizes)
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(body[places])]
        return pa.BinaryArray.from_buffers(pa.binary(), len(data), buffers), foreign

    def wrap(self, record: bytes) -> bytes:
        return self._header() + record

    def wrap_batch(self, records: pa.BinaryArray) -> pa.BinaryArray:
        return pc.binary_join_element_wise(self._header(), records.cast(pa.binary()), b"")

    def _header(self) -> bytes:
        if self._head is None:
            newest = self._registry.newest()
            way = _way(_compiled(newest).find(self._expected))
            packed = b"\0" if way == [0] else b"".join(_zigzag(value) for value in (len(way), *way))
            self._head = header(newest.id) + packed
        return self._head


def _compiled(found: Registered) -> MessageTypes:
    text = {"registered.proto": found.text, **found.references}
    return MessageTypes(compile_proto(text, "registered.proto", []))


def _way(descriptor: Descriptor) -> list[int]:
    above = descriptor.containing_type
    beside = list(descriptor.file.message_types_by_name.values()) if above is None else list(above.nested_types)
    place = [message.full_name for message in beside].index(descriptor.full_name)
    return [place] if above is None else [*_way(above), place]


def _indexes(record: bytes) -> tuple[list[int], int]:
    """The message's indexes and where the message begins; a single zero means the first message."""
    count, position = _varint(record, HEADER)
    if count == 0:
        return [0], position
    if not 0 < count <= MOST_INDEXES:
        raise BadRecord("no_schema_id", f"expected a few message indexes, found {count}")
    found = []
    for _ in range(count):
        value, position = _varint(record, position)
        found.append(value)
    return found, position


def _varint(record: bytes, position: int) -> tuple[int, int]:
    value = 0
    for place in range(5):
        if position >= len(record):
            break
        byte = record[position]
        position += 1
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position
    raise BadRecord("no_schema_id", "expected message indexes after the schema id")


def _zigzag(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
