"""How much memory a record of Arrow takes once it is read, told from its metadata before a byte of it is decompressed.

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
from gauss.plugins.framings.arrow_ipc_streaming.messages import BATCH, CONTINUATION, DICTIONARY, Table

VALUE_BYTES = 4
"""What a value is counted with beside its buffers: an offset, for it may become text."""


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
        place = start + size + Table.root(record[start : start + size]).number(3, "<q")


def _blocks(record: memoryview) -> Iterator[int]:
    """Where each message begins that the footer of a file names; the same one may be named many times."""
    (size,) = struct.unpack_from("<i", record, len(record) - 10)
    footer = Table.root(record[len(record) - 10 - size : len(record) - 10])
    for field in (2, 3):
        yield from (offset for offset, _, _, _ in struct.iter_unpack("<qiiq", footer.vector(field, 24)))


def _metadata(record: memoryview, place: int) -> tuple[int, int]:
    """(start, size) of a message's metadata; streams of old have no mark before the size."""
    place += 4 if record[place : place + 4] == CONTINUATION else 0
    (size,) = struct.unpack_from("<i", record, place)
    return place + 4, size


def _message_bytes(record: memoryview, place: int) -> int:
    start, size = _metadata(record, place)
    message = Table.root(record[start : start + size])
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
    """A compressed buffer says its own size first; -1: it is not compressed after all."""
    if length < 8:
        return length
    (size,) = struct.unpack_from("<q", record, place)
    return length if size < 0 else int(size)


def expanded_bytes(values: Any) -> int:
    """Bytes that values take beside their buffers once no two of them share one: of dictionaries and views."""
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
