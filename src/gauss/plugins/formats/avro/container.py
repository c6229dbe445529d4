"""Reads and writes containers: the header and blocks of an Avro file."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.avro.datum import write_long
from gauss.plugins.formats.avro.walk import read_long

MAGIC = b"Obj\x01"
MOST_WINDOW_BYTES = 8 << 20
"""Largest window of zstd, which every decoder must support; it is allocated before the first byte is decoded."""
SYNC = b"gauss block mark"
MOST_EMPTY = 100_000
"""Limit of rows that take no bytes, as those of a schema without fields."""


class Container(NamedTuple):
    """The writer's schema and the concatenated datums of a record."""

    schema: str
    body: bytes
    datums: int


def open_container(record: bytes, most: int) -> Container | None:
    """A record of at most `most` bytes once its blocks are decompressed. None: it is no container but a bare datum (its
    end is not the marker that a header would name)."""
    try:
        meta, position = _header(record)
    except BadRecord:
        return None
    sync = record[position - 16 : position]
    if "avro.schema" not in meta or record[-16:] != sync:
        return None
    codec = meta.get("avro.codec", b"null").decode(errors="replace")
    body, total, left = [], 0, most
    while position < len(record):
        count, position = _long(record, position)
        size, position = _long(record, position)
        end = position + size
        if count < 0 or size < 0 or record[end : end + 16] != sync:
            raise BadRecord("bad_avro", "a block does not end in its sync marker")
        body.append(_decompress(record[position:end], codec, left))
        left -= len(body[-1])
        total += count
        position = end + 16
    try:
        schema = meta["avro.schema"].decode()
    except UnicodeDecodeError:
        raise BadRecord("bad_utf8", "the schema is not UTF-8") from None
    joined = b"".join(body)
    if total > len(joined) + MOST_EMPTY:
        raise BadRecord(
            "bad_avro", f"{total} rows in {len(joined)} bytes: expected at most {MOST_EMPTY} without content"
        )
    return Container(schema, joined, total)


def close_container(schema: str, body: bytes, count: int) -> bytes:
    """A container of one block, not compressed."""
    out = bytearray(MAGIC)
    write_long(2, out)
    for key, value in (("avro.schema", schema.encode()), ("avro.codec", b"null")):
        write_long(len(key), out)
        out += key.encode()
        write_long(len(value), out)
        out += value
    out.append(0)
    out += SYNC
    write_long(count, out)
    write_long(len(body), out)
    return bytes(out) + body + SYNC


def _header(record: bytes) -> tuple[dict[str, bytes], int]:
    if not record.startswith(MAGIC):
        raise BadRecord("bad_avro", "no container")
    meta: dict[str, bytes] = {}
    position = len(MAGIC)
    while True:
        entries, position = _long(record, position)
        if entries == 0:
            break
        if entries < 0:
            _, position = _long(record, position)
        for _ in range(abs(entries)):
            key, position = _text(record, position)
            value, position = _text(record, position)
            meta[key.decode(errors="replace")] = value
    if position + 16 > len(record):
        raise BadRecord("bad_avro", "ends in its header")
    return meta, position + 16


def _text(record: bytes, position: int) -> tuple[bytes, int]:
    size, position = _long(record, position)
    if size < 0 or position + size > len(record):
        raise BadRecord("bad_avro", "ends in its header")
    return record[position : position + size], position + size


def _long(record: bytes, position: int) -> tuple[int, int]:
    value, position = read_long(record, position, len(record))
    if position < 0:
        raise BadRecord("bad_avro", "ends too early")
    return value, position


def _decompress(block: bytes, codec: str, most: int) -> bytes:
    try:
        found = _inflate(block, codec, most)
    except Exception as error:  # each library has errors of its own
        raise BadRecord("bad_avro", f"a block can't be decompressed ({codec}): {error}") from None
    if found is None:
        raise BadRecord("bad_avro", f"expected codec null, deflate, snappy or zstandard, found {codec}")
    if len(found) > most:
        raise BadRecord("too_large", "decompressed, the record is larger than max_decoded_bytes of its format")
    return found


def _inflate(block: bytes, codec: str, most: int) -> bytes | None:
    """What was compressed, or the first `most` bytes of it and one more; None: the codec is not known."""
    if codec == "null":
        return block
    if codec == "deflate":
        stream = zlib.decompressobj(wbits=-15)
        found = stream.decompress(block, most + 1)
        if len(found) <= most and not stream.eof:
            raise ValueError("it ends too early")
        return found
    if codec == "zstandard":
        import zstandard

        context = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES)
        with context.stream_reader(block, read_across_frames=True) as reader:
            return bytes(reader.read(most + 1))
    if codec == "snappy":
        import pyarrow as pa

        size, shift, place = 0, 0, 0
        while True:  # the size as a varint before the data, a checksum of four bytes after it
            size |= (block[place] & 127) << shift
            shift, place = shift + 7, place + 1
            if block[place - 1] < 128:
                break
        if size > most:
            return bytes(most + 1)
        return bytes(pa.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True))
    return None
