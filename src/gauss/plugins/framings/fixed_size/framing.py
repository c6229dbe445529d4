"""Records of one size: all positions are arithmetic."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gauss.contracts.framing import Buffer
from gauss.model.batch import packed, value_lengths
from gauss.plugins.framings.buffered_splitter import BufferedSplitter, Cut, head, too_long
from gauss.plugins.framings.fixed_size.spec import FixedSizeConfig


class FixedSizeFraming:
    raw = True
    carries_all = False

    def __init__(self, config: FixedSizeConfig) -> None:
        self.size = config.frame_size
        self.key: tuple[object, ...] = ("fixed_size", self.size)

    def splitter(self, max_record_bytes: int) -> FixedSizeSplitter:
        return FixedSizeSplitter(self.size, max_record_bytes)

    def joiner(self) -> FixedSizeJoiner:
        return FixedSizeJoiner()

    def bounds(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        starts = np.arange(0, len(buffer), self.size, dtype=np.int64)
        return starts, starts + self.size

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:
        bad = value_lengths(data) != self.size
        return bad if bad.any() else None


class FixedSizeSplitter(BufferedSplitter):
    def __init__(self, size: int, max_record_bytes: int) -> None:
        super().__init__(max_record_bytes)
        self._size = size

    def _cut(self, buffer: bytes | bytearray) -> Cut:
        if self._size > self._limit:
            return Cut(b"", 0, 0, error=too_long(self._size, self._limit, buffer, 0))
        count = len(buffer) // self._size
        used = count * self._size
        return Cut(head(buffer, used), count, used, need=self._size)


class FixedSizeJoiner:
    def join(self, data: pa.BinaryArray) -> bytes:
        return bytes(packed(data))
