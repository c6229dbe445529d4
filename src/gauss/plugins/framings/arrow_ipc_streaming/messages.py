"""Messages of an Arrow IPC stream: their borders and kinds, read from the flatbuffer by hand (four fields)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from gauss.contracts.framing import Buffer
from gauss.plugins.framings.containers import Incomplete, Malformed, TooLong, expect_start

CONTINUATION = b"\xff\xff\xff\xff"
END_OF_STREAM = CONTINUATION + b"\0\0\0\0"
PREFIX_BYTES = 8

SCHEMA, DICTIONARY, BATCH = 1, 2, 3
KIND_NAMES = {SCHEMA: "schema", DICTIONARY: "dictionary", BATCH: "record batch"}


class Message(NamedTuple):
    """`kind` 0 is the end-of-stream marker."""

    kind: int
    size: int
    dictionary: int = 0
    is_delta: bool = False


def message(data: memoryview, limit: int) -> Message:
    """The message at the head of `data`."""
    prefix = bytes(data[:PREFIX_BYTES])
    expect_start(prefix, CONTINUATION, "an Arrow message")
    if len(prefix) < PREFIX_BYTES:
        raise Incomplete(PREFIX_BYTES)
    (metadata_bytes,) = struct.unpack_from("<i", prefix, 4)
    if metadata_bytes == 0:
        return Message(0, PREFIX_BYTES)
    if metadata_bytes < 0:
        raise Malformed(f"an Arrow message with {metadata_bytes} bytes of metadata")
    body_start = PREFIX_BYTES + metadata_bytes
    if body_start > limit:
        raise TooLong(body_start)
    if len(data) < body_start:
        raise Incomplete(body_start)
    try:
        found, body_bytes = _parse(data[PREFIX_BYTES:body_start])
    except (struct.error, IndexError) as error:
        raise Malformed(f"unreadable metadata of an Arrow message: {error}") from error
    if body_bytes < 0 or found.kind not in KIND_NAMES:
        raise Malformed(f"an Arrow message of kind {found.kind} with a body of {body_bytes} bytes")
    size = body_start + body_bytes
    if size > limit:
        raise TooLong(size)
    if len(data) < size:
        raise Incomplete(size)
    return found._replace(size=size)


def _parse(metadata: Buffer) -> tuple[Message, int]:
    root = FlatbufferTable.root(metadata)
    kind = root.number(1, "<B")
    body_bytes = root.number(3, "<q")
    if kind != DICTIONARY:
        return Message(kind, 0), body_bytes
    header = root.table(2)
    return Message(kind, 0, header.number(0, "<q"), bool(header.number(2, "<B"))), body_bytes


class FlatbufferTable(NamedTuple):
    """A table of a flatbuffer; raises struct.error or IndexError where it does not hold together."""

    data: Buffer
    place: int

    @classmethod
    def root(cls, data: Buffer) -> FlatbufferTable:
        return cls(data, _offset(data, 0))

    def has(self, field: int) -> bool:
        return self._field(field) != 0

    def number(self, field: int, layout: str) -> int:
        """A scalar, 0 when it has its default."""
        place = self._field(field)
        return int(struct.unpack_from(layout, self.data, place)[0]) if place else 0

    def table(self, field: int) -> FlatbufferTable:
        place = self._field(field)
        if not place:
            raise IndexError(f"no field {field}")
        return FlatbufferTable(self.data, _offset(self.data, place))

    def vector(self, field: int, width: int) -> Buffer:
        """The bytes of a vector of structs of so many bytes."""
        place = self._field(field)
        if not place:
            return b""
        start = _offset(self.data, place)
        (count,) = struct.unpack_from("<I", self.data, start)
        found = self.data[start + 4 : start + 4 + count * width]
        if len(found) != count * width:
            raise IndexError("a vector beyond the metadata")
        return found

    def _field(self, field: int) -> int:
        """Where a field lies, 0 when it has its default."""
        vtable = self.place - int(struct.unpack_from("<i", self.data, self.place)[0])
        if vtable < 0:  # struct would count it from the end
            raise IndexError("a vtable before the metadata")
        (vtable_bytes,) = struct.unpack_from("<H", self.data, vtable)
        entry = 4 + 2 * field
        if entry >= vtable_bytes:
            return 0
        place = int(struct.unpack_from("<H", self.data, vtable + entry)[0])
        return self.place + place if place else 0


def _offset(metadata: Buffer, position: int) -> int:
    return position + int(struct.unpack_from("<I", metadata, position)[0])
