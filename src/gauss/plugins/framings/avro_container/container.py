"""Where the header and the blocks of an Avro object container lie; their content is not looked at."""

from __future__ import annotations

from gauss.contracts.framing import Buffer
from gauss.plugins.framings.containers import Incomplete, Malformed, TooLong, expect_start

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
MOST_ENTRIES = 100
"""Metadata entries a header may have; files have two to ten, and a header is read anew until it is all there."""


def header_size(data: Buffer, limit: int) -> int:
    """The size of the header at the head of `data`: magic, metadata map, sync marker."""
    expect_start(data, MAGIC, "an Avro header")
    position = len(MAGIC)
    seen = 0
    while True:
        entries, position = _long(data, position)
        if entries == 0:
            return _advance(data, position, SYNC_BYTES)
        if entries < 0:  # then the map block's size in bytes follows, for readers that skip it
            size, position = _long(data, position)
            position = _skip(data, position, size, limit)
        seen += abs(entries)
        if seen > MOST_ENTRIES:
            raise Malformed(f"an Avro header of {seen} entries: expected at most {MOST_ENTRIES}")
        for _ in range(2 * entries):  # keys and values are both a length and as many bytes
            size, position = _long(data, position)
            position = _skip(data, position, size, limit)


def block_size(data: Buffer, limit: int) -> int:
    """The size of the block at the head of `data`: count, size, bytes, sync marker."""
    count, position = _long(data, 0)
    size, position = _long(data, position)
    if count < 0 or size < 0:
        raise Malformed(f"expected an Avro block, found a count of {count} and a size of {size}")
    if position + size + SYNC_BYTES > limit:
        raise TooLong(position + size + SYNC_BYTES)
    return _advance(data, position, size + SYNC_BYTES)


def _skip(data: Buffer, position: int, size: int, limit: int) -> int:
    if size < 0:
        raise Malformed(f"expected a length in the Avro header, found {size}")
    if position + size > limit:
        raise TooLong(position + size)
    return _advance(data, position, size)


def _advance(data: Buffer, position: int, size: int) -> int:
    if position + size > len(data):
        raise Incomplete(position + size)
    return position + size


def _long(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint and where it ends."""
    value = 0
    for place in range(10):
        if position >= len(data):
            raise Incomplete(position + 1)
        byte = data[position]
        position += 1
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position
    raise Malformed("a varint of more than 10 bytes: expected an Avro long")
