"""The memory that an Arrow record takes once it is read, from its metadata, before anything is decompressed.

Buffers may be compressed, may overlap, and those of nulls and empty structs take no bytes at all; blocks of a file may
be listed many times; an entry of a dictionary stands for as many values as refer to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.format import BadRecord
from gauss.plugins.framings.arrow_ipc_streaming.messages import BATCH, CONTINUATION, DICTIONARY, FlatbufferTable

VALUE_BYTES = 4
"""Bytes counted per value beside its buffers: an offset, since it may become text."""


def declared_bytes(record: memoryview, *, is_file: bool) -> int:
    """Bytes that the batches and dictionaries of a record take when they are read; raises BadRecord."""
    try:
        return sum(_message_bytes(record, place) for place in (_blocks(record) if is_file else _messages(record)))
    except (struct.error, IndexError, ValueError) as error:
        raise BadRecord("bad_arrow", f"unreadable metadata of an Arrow message: {error}") from None


def _messages(record: memoryview) -> Iterator[int]:
    """Where each message of a stream begins."""
    place = 0
    while place + 4 <= len(record):
        start, size = _metadata(record, place)
        if size == 0:
            return
        if size < 0:
            raise IndexError(f"a size of {size}")
        yield place
        place = start + size + FlatbufferTable.root(record[start : start + size]).number(3, "<q")


def _blocks(record: memoryview) -> Iterator[int]:
    """Where each message of a file's footer begins; a footer may list a message many times."""
    (size,) = struct.unpack_from("<i", record, len(record) - 10)
    footer = FlatbufferTable.root(record[len(record) - 10 - size : len(record) - 10])
    for field in (2, 3):
        yield from (offset for offset, _, _, _ in struct.iter_unpack("<qiiq", footer.vector(field, 24)))


def _metadata(record: memoryview, place: int) -> tuple[int, int]:
    """(start, size) of a message's metadata; old streams have no continuation marker before the size."""
    place += 4 if record[place : place + 4] == CONTINUATION else 0
    (size,) = struct.unpack_from("<i", record, place)
    return place + 4, size


def _message_bytes(record: memoryview, place: int) -> int:
    start, size = _metadata(record, place)
    message = FlatbufferTable.root(record[start : start + size])
    kind = message.number(1, "<B")
    if kind not in (BATCH, DICTIONARY):
        return 0
    batch = message.table(2) if kind == BATCH else message.table(2).table(1)
    values = sum(length for length, _ in struct.iter_unpack("<qq", batch.vector(1, 16)))
    buffers = struct.iter_unpack("<qq", batch.vector(2, 16))
    if batch.has(3):
        sizes = (_decompressed(record, start + size + offset, length) for offset, length in buffers)
    else:
        sizes = (length for _, length in buffers)
    return int(sum(sizes) + values * VALUE_BYTES)


def _decompressed(record: memoryview, place: int, length: int) -> int:
    """A compressed buffer begins with its uncompressed size, or -1 if it is not compressed."""
    if length < 8:
        return length
    (size,) = struct.unpack_from("<q", record, place)
    return length if size < 0 else int(size)


def expanded_bytes(values: Any) -> int:
    """Bytes that values of dictionaries and views take once each has its own copy."""
    if isinstance(values, pa.ChunkedArray):
        return sum(map(expanded_bytes, values.chunks))
    kind, kinds = values.type, pa.types
    if kinds.is_dictionary(kind):
        return _looked_up(values.indices, values.dictionary)
    if kinds.is_string_view(kind) or kinds.is_binary_view(kind):
        views = np.frombuffer(values.buffers()[1], np.int32)[::4][values.offset : values.offset + len(values)]
        return int(np.maximum(views, 0).sum(dtype=np.int64))
    if kinds.is_struct(kind):
        return sum(map(expanded_bytes, values.flatten()))
    if kinds.is_map(kind):
        return expanded_bytes(values.keys) + expanded_bytes(values.items)
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return expanded_bytes(values.values)
    return 0


def _looked_up(indices: pa.Array, entries: pa.Array) -> int:
    kinds = pa.types
    if kinds.is_null(entries.type) or not len(entries):
        return 0
    if any(
        test(entries.type) for test in (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    ):
        return int(pc.sum(pc.binary_length(entries).take(indices).cast(pa.int64())).as_py() or 0)
    try:
        return int(len(indices) * entries.type.bit_width // 8)
    except ValueError:  # of no fixed width: none is larger than all together
        return int(len(indices) * (entries.nbytes + expanded_bytes(entries)))
