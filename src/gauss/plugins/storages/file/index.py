"""The index beside a segment: one fixed-width entry per appended block."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
import xxhash

from gauss.contracts.framing import Buffer

ENTRY = struct.Struct("<qqqqIIII")
"""offset, position, ts_ms, publish, count, length, checksum, flags; ts_ms is the block's largest."""

DTYPE = np.dtype(
    [
        ("offset", "<i8"),
        ("position", "<i8"),
        ("ts_ms", "<i8"),
        ("publish", "<i8"),
        ("count", "<u4"),
        ("length", "<u4"),
        ("checksum", "<u4"),
        ("flags", "<u4"),
    ]
)

OWN_TIMES = 1
"""Flag: the times of the records differ and are in the `.times` file."""

MAX_BLOCK_BYTES = 1 << 30


_SUMMED = struct.Struct("<qqqqIII")


class IndexEntry(NamedTuple):
    """The index entry of a block."""

    offset: int
    position: int
    ts_ms: int
    publish: int
    records: int
    length: int
    checksum: int
    flags: int

    def sealed(self, payload: Buffer, times: bytes) -> IndexEntry:
        """The entry with the checksum of the bytes, their times and the entry itself."""
        return self._replace(checksum=self._sum(payload, times))

    def holds(self, payload: Buffer, times: bytes) -> bool:
        """Whether the checksum matches."""
        return self.checksum == self._sum(payload, times)

    def _sum(self, payload: Buffer, times: bytes) -> int:
        # XXH3 is twelve times as fast as crc32, and the checksum is the most expensive part of an append.
        summed = xxhash.xxh3_64(payload)
        summed.update(times)
        summed.update(_SUMMED.pack(*self[:6], self.flags))
        return summed.intdigest() & 0xFFFFFFFF

    @property
    def end(self) -> int:
        return self.offset + self.records

    @property
    def end_position(self) -> int:
        return self.position + self.length


class BlockIndex:
    """Entries in one buffer: a growing bytearray while a segment is written, a memory map afterwards.

    There are no objects per block, and no view of the bytearray outlives a call, since the view would prevent growth.
    """

    def __init__(self, buffer: bytearray | memoryview) -> None:
        self.buffer = buffer

    def __len__(self) -> int:
        return len(self.buffer) // ENTRY.size

    def entry(self, number: int) -> IndexEntry:
        return IndexEntry(*ENTRY.unpack_from(self.buffer, number * ENTRY.size))

    def entries(self, first: int, stop: int) -> np.ndarray:
        return np.frombuffer(bytes(self.buffer[first * ENTRY.size : stop * ENTRY.size]), dtype=DTYPE)

    def block_of(self, offset: int) -> int:
        """The last block that begins at or before `offset`; -1 if none does."""
        return bisect_right(range(len(self)), offset, key=self._offset) - 1

    def block_at_position(self, position: int) -> int:
        """The first block at or after `position`."""
        return bisect_left(range(len(self)), position, key=self._position)

    def block_at_time(self, ts_ms: int) -> int:
        """The first block whose largest `ts_ms` is >= the given time."""
        return bisect_left(range(len(self)), ts_ms, key=self._ts_ms)

    def _offset(self, number: int) -> int:
        return int(struct.unpack_from("<q", self.buffer, number * ENTRY.size)[0])

    def _position(self, number: int) -> int:
        return int(struct.unpack_from("<q", self.buffer, number * ENTRY.size + 8)[0])

    def _ts_ms(self, number: int) -> int:
        return int(struct.unpack_from("<q", self.buffer, number * ENTRY.size + 16)[0])
