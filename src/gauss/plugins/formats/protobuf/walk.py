"""A walk over messages that marks those which ptars may read differently from protobuf's own parser.

A message is a suspect, left to protobuf's parser, if it is malformed, not UTF-8, of another wire type than declared,
grouped or deeper than 24 levels, or if it has something twice: a field that is not repeated, two members of a oneof, a
part of a map's entry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gauss.plugins.formats.literals import utf8_end
from gauss.plugins.formats.protobuf.descriptor import is_map
from gauss.plugins.formats.walk_function import WalkFunction

UNKNOWN, VARINT, FIXED64, BYTES, TEXT, MESSAGE, FIXED32 = range(7)
"""Kinds of fields."""
WIRE_VARINT, WIRE_FIXED64, WIRE_LENGTH, WIRE_FIXED32 = 0, 1, 2, 5
"""Wire types, as the encoding of protobuf numbers them."""
MAX_TAG = 2**32 - 1
MAX_TAG_BITS, MAX_VARINT_BYTES = 35, 10
MAX_DEPTH = 24
MAX_NUMBER = 2_000
"""Field numbers up to here are looked up in a table."""

Ints = np.ndarray | list[int]
"""Arrays for machine code, lists for plain Python."""

_KINDS = {
    FieldDescriptor.TYPE_DOUBLE: FIXED64,
    FieldDescriptor.TYPE_FIXED64: FIXED64,
    FieldDescriptor.TYPE_SFIXED64: FIXED64,
    FieldDescriptor.TYPE_FLOAT: FIXED32,
    FieldDescriptor.TYPE_FIXED32: FIXED32,
    FieldDescriptor.TYPE_SFIXED32: FIXED32,
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_BYTES: BYTES,
    FieldDescriptor.TYPE_MESSAGE: MESSAGE,
}


class MessageTables(NamedTuple):
    """Every message that a record can hold, each with a number; the record's own is 0."""

    width: int
    """How many slots the largest message has."""
    kinds: Ints
    """By entry: the kind of a field. Field n of message m is entry first[m] + n."""
    children: Ints
    """By entry: the message that a field holds."""
    slots: Ints
    """By entry: fields with the same slot exclude each other and themselves; -1 for a repeated field."""
    first: Ints
    most: Ints
    """By message: its highest field number."""
    strict: Ints
    """By message: whether an undeclared field makes it suspect, as in a map's entry."""


class ProtobufWalk(NamedTuple):
    """The argument of `walk`."""

    data: np.ndarray | bytes
    """Signed bytes for machine code, in which unsigned ones would become floats; hence `& 255`."""
    offsets: Ints
    tables: MessageTables
    suspects: np.ndarray
    ends: Ints
    """By level: where the message ends."""
    messages: Ints
    """By level: the number of the message."""
    stamps: Ints
    """By level: a number that no other message of the batch has."""
    seen: Ints
    """By level and slot: the stamp of the last message that had it."""


def walk(batch: ProtobufWalk) -> None:
    """Marks suspects."""
    data, offsets, tables, suspects = batch.data, batch.offsets, batch.tables, batch.suspects
    ends, messages, stamps, seen = batch.ends, batch.messages, batch.stamps, batch.seen
    stamp = 0
    for record in range(len(offsets) - 1):
        position = offsets[record]
        level = 0
        ends[0], messages[0] = offsets[record + 1], 0
        stamp += 1
        stamps[0] = stamp
        fine = True
        while fine:
            limit = ends[level]
            if position == limit:
                if level == 0:
                    break
                level -= 1
                continue
            tag, shift, more = 0, 0, True
            while more and position < limit and shift < MAX_TAG_BITS:
                byte = data[position] & 255
                position += 1
                tag |= (byte & 127) << shift
                shift += 7
                more = byte > 127
            wire, number, message = tag & 7, tag >> 3, messages[level]
            if more or tag > MAX_TAG or number == 0:
                fine = False
                break
            kind, child, slot = UNKNOWN, 0, -1
            if number <= tables.most[message]:
                entry = tables.first[message] + number
                kind, child, slot = tables.kinds[entry], tables.children[entry], tables.slots[entry]
            if kind == UNKNOWN and tables.strict[message]:
                fine = False
                break
            if slot >= 0:
                place = level * tables.width + slot
                if seen[place] == stamps[level]:
                    fine = False
                    break
                seen[place] = stamps[level]
            if wire == WIRE_VARINT:
                if kind not in (UNKNOWN, VARINT):
                    fine = False
                    break
                size, more = 0, True
                while more and position < limit and size < MAX_VARINT_BYTES:
                    more = (data[position] & 255) > 127
                    position += 1
                    size += 1
                fine = not more
            elif wire == WIRE_FIXED64:
                position += 8
                fine = kind in (UNKNOWN, FIXED64) and position <= limit
            elif wire == WIRE_FIXED32:
                position += 4
                fine = kind in (UNKNOWN, FIXED32) and position <= limit
            elif wire == WIRE_LENGTH:
                length, shift, more = 0, 0, True
                while more and position < limit and shift < MAX_TAG_BITS:
                    byte = data[position] & 255
                    position += 1
                    length |= (byte & 127) << shift
                    shift += 7
                    more = byte > 127
                stop = position + length
                if more or stop > limit:
                    fine = False
                elif kind == MESSAGE:
                    level += 1
                    if level >= MAX_DEPTH:
                        fine = False
                    else:
                        stamp += 1
                        ends[level], messages[level], stamps[level] = stop, child, stamp
                elif kind == TEXT:
                    position = utf8_end(data, position, stop)
                    fine = position == stop
                elif kind == VARINT:  # packed
                    fine = slot < 0
                    size = 0
                    while fine and position < stop:
                        size = size + 1 if (data[position] & 255) > 127 else 0
                        fine = size < MAX_VARINT_BYTES
                        position += 1
                    fine = fine and size == 0
                elif kind in (FIXED64, FIXED32):  # packed
                    fine = slot < 0 and length % (8 if kind == FIXED64 else 4) == 0
                    position = stop
                else:
                    position = stop
            else:
                fine = False
        if not fine:
            suspects[record] = 1


WALK = WalkFunction(walk, utf8_end)


def make_tables(root: Descriptor) -> MessageTables | None:
    """None if the walk can't check such messages: those of proto2, or with large field numbers."""
    order: dict[str, int] = {root.full_name: 0}
    queue, width = [root], 1
    entries: list[tuple[int, int, int]] = []
    first: list[int] = []
    most: list[int] = []
    strict: list[int] = []
    for message in queue:
        numbers = [field.number for field in message.fields]
        if _syntax(message) != "proto3" or max(numbers, default=0) > MAX_NUMBER:
            return None
        first.append(len(entries))
        most.append(max(numbers, default=0))
        strict.append(int(message.GetOptions().map_entry))
        entries += [(UNKNOWN, 0, -1)] * (most[-1] + 1)
        for slot, field in enumerate(message.fields):
            child = 0
            if field.message_type is not None:
                if field.type == FieldDescriptor.TYPE_GROUP:
                    return None
                name = field.message_type.full_name
                if name not in order:
                    order[name] = len(queue)
                    queue.append(field.message_type)
                child = order[name]
            oneof = field.containing_oneof
            once = oneof.fields[0].index if oneof is not None else slot
            # A nested map may have only one entry: two may have the same key.
            nested_map = is_map(field) and message is not root
            repeated = field.is_repeated and not nested_map
            entries[first[-1] + field.number] = (_KINDS.get(field.type, VARINT), child, -1 if repeated else once)
        width = max(width, len(message.fields))
    kinds, children, slots = (list(part) for part in zip(*entries, strict=True))
    return MessageTables(width, kinds, children, slots, first, most, strict)


def _syntax(message: Descriptor) -> str:
    file = descriptor_pb2.FileDescriptorProto()
    message.file.CopyToProto(file)
    syntax: str = file.syntax
    return syntax


def suspects(data: np.ndarray, offsets: np.ndarray, tables: MessageTables) -> np.ndarray:
    """Which records are suspects."""
    count = len(offsets) - 1
    function, compiled = WALK.ready(count, int(offsets[-1] - offsets[0]))
    found = np.zeros(count, np.uint8)
    sizes = (MAX_DEPTH, MAX_DEPTH, MAX_DEPTH, MAX_DEPTH * tables.width)
    if compiled:
        arrays = MessageTables(tables.width, *(np.array(part, np.int64) for part in tables[1:]))
        scratch = (np.zeros(size, np.int64) for size in sizes)
        function(ProtobufWalk(data.view(np.int8), offsets, arrays, found, *scratch))
    else:
        start = int(offsets[0])
        text, places = data[start : int(offsets[-1])].tobytes(), (offsets - start).tolist()
        function(ProtobufWalk(text, places, tables, found, *([0] * size for size in sizes)))
    return found.astype(bool)
