"""A chunk: consecutive records as received, and their number. Arrow batches are built on read."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from gauss.model.batch import gather, record_batch

if TYPE_CHECKING:
    from gauss.contracts.framing import Framing


LARGE_RECORD = 512
"""Mean record size from which record bounds are cached, since they are then small compared to the data."""


class MappedFile(mmap.mmap):
    """A mapped file with an open descriptor, so that the kernel can send parts of it directly (sendfile)."""

    fd: int
    address: int

    @classmethod
    def map(cls, fd: int) -> MappedFile:
        """Maps the current content of a file. Duplicates the descriptor."""
        made = cls(fd, 0, access=mmap.ACCESS_READ)
        made.address = np.frombuffer(made, np.uint8).ctypes.data
        made.fd = os.dup(fd)
        return made

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


class FilePart(NamedTuple):
    """A range of a file."""

    file: MappedFile
    position: int
    length: int


def file_part(payload: memoryview) -> FilePart | None:
    """The file range of a payload. `None` if it is only in memory."""
    file = payload.obj
    if not isinstance(file, MappedFile) or not len(payload):
        return None
    return FilePart(file, int(np.frombuffer(payload, np.uint8).ctypes.data) - file.address, len(payload))


class Chunk:
    """Either framed bytes (`framing` set, `payload` bytes-like) or records (`framing` None, a BinaryArray).

    `ts_ms` is one arrival time, or an int64 array with one per record; `bounds` is the result of `Framing.bounds`.
    """

    __slots__ = ("_bounds", "count", "framing", "nbytes", "payload", "ts_ms")

    def __init__(
        self,
        payload: Any,
        count: int,
        ts_ms: int | np.ndarray,
        framing: Framing | None = None,
        bounds: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.payload = payload
        self.count = count
        self.ts_ms = ts_ms
        self.framing = framing
        self.nbytes: int = len(payload) if framing is not None else payload.nbytes
        self._bounds = bounds

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of each record's content in a framed chunk."""
        if self._bounds is not None:
            return self._bounds
        assert self.framing is not None
        found = self.framing.bounds(self.payload)
        if self.nbytes >= LARGE_RECORD * self.count:
            self._bounds = found
        return found

    def data(self) -> pa.BinaryArray:
        """The records without framing. Not cached, so that reading a topic does not increase its memory."""
        return self.payload if self.framing is None else gather(self.payload, *self.bounds())

    def batch(self, first_offset: int) -> pa.RecordBatch:
        """The chunk as an Arrow batch. `first_offset` is the offset of its first record."""
        return record_batch(first_offset, self.ts_ms, self.data())

    def is_framed_as(self, framing: Framing) -> bool:
        """Whether the payload is already the wire form of `framing`."""
        return self.framing is not None and self.framing.raw and self.framing.key == framing.key

    def framed(self, framing: Framing) -> Chunk:
        """The same records in `framing`: this chunk if it has that framing, else a copy. Check `unfit` first."""
        if self.is_framed_as(framing):
            return self
        return Chunk(framing.joiner().join(self.data()), self.count, self.ts_ms, framing)

    def slice(self, start: int, count: int) -> Chunk:
        """Records [start, start + count) of this chunk. Shares the bytes."""
        if start == 0 and count == self.count:
            return self
        times = self.ts_ms if isinstance(self.ts_ms, int) else self.ts_ms[start : start + count]
        if self.framing is None:
            return Chunk(self.payload.slice(start, count), count, times)
        self._bounds = starts, ends = self.bounds()  # cached: a chunk that is cut once is usually cut again
        frame_ends = self.frame_ends()
        begin = int(frame_ends[start - 1]) if start else 0
        end = int(frame_ends[start + count - 1]) if count else begin
        part = Chunk(memoryview(self.payload)[begin:end], count, times, self.framing)
        part._bounds = starts[start : start + count] - begin, ends[start : start + count] - begin
        return part

    def frame_ends(self) -> np.ndarray:
        """End of each frame in the payload, including prefix and delimiter.

        In a raw framing the width of the prefix may vary (a varint); the suffix (a delimiter, or nothing) has a fixed
        width.
        """
        ends = self.bounds()[1]
        trailing = len(self.payload) - int(ends[-1]) if len(ends) else 0
        return ends + trailing

    def first_ts(self) -> int:
        return self.ts_ms if isinstance(self.ts_ms, int) else int(self.ts_ms[0])

    def last_ts(self) -> int:
        return self.ts_ms if isinstance(self.ts_ms, int) else int(self.ts_ms[-1])
