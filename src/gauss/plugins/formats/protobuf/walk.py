"""A walk over messages that vouches for those which every parser reads alike.

Suspect, and left to protobuf's own parser, is whatever is malformed, not UTF-8, of another wire type than declared,
grouped, deeper than 24 levels, or given twice: a field that is not repeated, two members of a oneof, a part of a map's
entry.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gauss.plugins.formats.compiled import Walk, utf8_end
from gauss.plugins.formats.protobuf.descriptor import is_map

UNKNOWN, VARINT, FIXED64, BYTES, TEXT, MESSAGE, FIXED32 = range(7)
DEPTH = 24
MOST_NUMBER = 2_000
"""Field numbers up to here are looked up in a table."""

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


def walk(  # noqa: PLR0917
    data: Any,
    offsets: Any,
    table: Any,
    first: Any,
    most: Any,
    strict: Any,
    ends: Any,
    kinds: Any,
    stamps: Any,
    seen: Any,
    width: int,
    suspects: Any,
) -> None:
    """Marks suspects. `table` has (kind, child message, once-only slot) per field number of each message."""
    stamp = 0
    for record in range(len(offsets) - 1):
        position = offsets[record]
        level = 0
        ends[0], kinds[0] = offsets[record + 1], 0
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
            while more and position < limit and shift < 35:
                byte = data[position] & 255
                position += 1
                tag |= (byte & 127) << shift
                shift += 7
                more = byte > 127
            wire, number, message = tag & 7, tag >> 3, kinds[level]
            if more or tag > 4294967295 or number == 0:
                fine = False
                break
            kind, child, slot = 0, 0, -1
            if number <= most[message]:
                entry = (first[message] + number) * 3
                kind, child, slot = table[entry], table[entry + 1], table[entry + 2]
            if kind == 0 and strict[message]:
                fine = False
                break
            if slot >= 0:
                place = level * width + slot
                if seen[place] == stamps[level]:
                    fine = False
                    break
                seen[place] = stamps[level]
            if wire == 0:
                if kind > 1:
                    fine = False
                    break
                size, more = 0, True
                while more and position < limit and size < 10:
                    more = (data[position] & 255) > 127
                    position += 1
                    size += 1
                fine = not more
            elif wire == 1:
                position += 8
                fine = (kind in (0, 2)) and position <= limit
            elif wire == 5:
                position += 4
                fine = (kind in (0, 6)) and position <= limit
            elif wire == 2:
                length, shift, more = 0, 0, True
                while more and position < limit and shift < 35:
                    byte = data[position] & 255
                    position += 1
                    length |= (byte & 127) << shift
                    shift += 7
                    more = byte > 127
                stop = position + length
                if more or stop > limit:
                    fine = False
                elif kind == 5:
                    level += 1
                    if level >= DEPTH:
                        fine = False
                    else:
                        stamp += 1
                        ends[level], kinds[level], stamps[level] = stop, child, stamp
                elif kind == 4:
                    position = utf8_end(data, position, stop)
                    fine = position == stop
                elif kind == 1:  # packed
                    fine = slot < 0
                    size = 0
                    while fine and position < stop:
                        size = size + 1 if (data[position] & 255) > 127 else 0
                        fine = size < 10
                        position += 1
                    fine = fine and size == 0
                elif kind in (2, 6):
                    fine = slot < 0 and length % (8 if kind == 2 else 4) == 0
                    position = stop
                else:
                    position = stop
            else:
                fine = False
        if not fine:
            suspects[record] = 1


class Tables(NamedTuple):
    """Every message that a record can hold, as the walk needs it."""

    table: list[int]
    first: list[int]
    most: list[int]
    strict: list[int]
    """Whether a field that is not declared makes a message suspect: in a map's entry."""
    width: int


def tables(root: Descriptor) -> Tables | None:
    """None: the walk can't vouch for such messages (proto2's rules, or large field numbers)."""
    order: dict[str, int] = {root.full_name: 0}
    queue, width = [root], 1
    table: list[int] = []
    first: list[int] = []
    most: list[int] = []
    strict: list[int] = []
    for message in queue:
        numbers = [field.number for field in message.fields]
        if _syntax(message) != "proto3" or max(numbers, default=0) > MOST_NUMBER:
            return None
        first.append(len(table) // 3)
        most.append(max(numbers, default=0))
        strict.append(int(message.GetOptions().map_entry))
        rows = [[0, 0, -1] for _ in range(most[-1] + 1)]
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
            # Of a map deep inside only one entry is vouched for: two may have one key.
            nested_map = is_map(field) and message is not root
            rows[field.number] = [
                _KINDS.get(field.type, VARINT),
                child,
                -1 if field.is_repeated and not nested_map else once,
            ]
        width = max(width, len(message.fields))
        table.extend(value for row in rows for value in row)
    return Tables(table, first, most, strict, width)


def _syntax(message: Descriptor) -> str:
    file = descriptor_pb2.FileDescriptorProto()
    message.file.CopyToProto(file)
    syntax: str = file.syntax
    return syntax


_walk = Walk(walk, utf8_end)


def suspects(data: np.ndarray, offsets: np.ndarray, known: Tables) -> np.ndarray:
    """Which records the walk does not vouch for."""
    count = len(offsets) - 1
    function, compiled = _walk.ready(count, int(offsets[-1] - offsets[0]))
    found = np.zeros(count, np.uint8)
    if compiled:
        scratch: list[Any] = [np.zeros(size, np.int64) for size in (DEPTH, DEPTH, DEPTH, DEPTH * known.width)]
        parts: list[Any] = [np.array(part, np.int64) for part in known[:4]]
        function(data.view(np.int8), offsets, *parts, *scratch, known.width, found)
    else:
        scratch = [[0] * size for size in (DEPTH, DEPTH, DEPTH, DEPTH * known.width)]
        start = int(offsets[0])
        text = data[start : int(offsets[-1])].tobytes()
        function(text, (offsets - start).tolist(), *known[:4], *scratch, known.width, found)
    return found.astype(bool)
