"""Records after their length: u16be, u32be or a varint like protobuf's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.framing import Buffer
from gauss.model.batch import MOST_BYTES, value_lengths
from gauss.plugins.framings.affixes import with_heads
from gauss.plugins.framings.buffered_splitter import BufferedSplitter, Cut, bad_frame, head, too_long
from gauss.plugins.framings.length_prefixed.spec import LengthPrefixedConfig
from gauss.plugins.framings.length_prefixed.walk import FINE, TOO_LONG, U16, U32, VARINT, WALKER, WalkResult, walk

KINDS = {"u16be": U16, "u32be": U32, "varint": VARINT}
NO_POSITIONS = np.zeros(0, np.int64)
LARGE = 4 << 20
"""Above this a first walk counts the records; below it room for the most there can be costs less."""


class LengthPrefixedFraming:
    raw = True

    def __init__(self, config: LengthPrefixedConfig) -> None:
        self.key: tuple[object, ...] = ("length_prefixed", config.prefix_type)
        self._kind = KINDS[config.prefix_type]
        self.carries_all = self._kind != 2

    def splitter(self, max_record_bytes: int) -> LengthPrefixedSplitter:
        return LengthPrefixedSplitter(self._kind, max_record_bytes)

    def joiner(self) -> LengthPrefixedJoiner:
        return LengthPrefixedJoiner(self._kind)

    def bounds(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        size = len(buffer)
        alike = equal_frames(buffer, self._kind, MOST_BYTES)
        if alike is not None and alike.records * alike.frame == size:
            ends = np.arange(1, alike.records + 1, dtype=np.int64) * alike.frame
            return ends - (alike.frame - alike.prefix), ends
        most = size // (self._kind or 1)
        if size > LARGE:
            most = WALKER(buffer, self._kind, MOST_BYTES, NO_POSITIONS, NO_POSITIONS).records
        starts, ends = np.empty(most, np.int64), np.empty(most, np.int64)
        count = WALKER(buffer, self._kind, MOST_BYTES, starts, ends).records
        return starts[:count].copy(), ends[:count].copy()

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:
        if self.carries_all:
            return None
        bad = value_lengths(data) > 0xFFFF
        return bad if bad.any() else None


class EqualLengths(NamedTuple):
    """Frames of one length at the head of a buffer."""

    records: int
    frame: int
    prefix: int


def equal_frames(buffer: Buffer, kind: int, limit: int) -> EqualLengths | None:
    """Guesses that all frames are as long as the first, and verifies it by looking at every prefix at once."""
    start, end = np.zeros(1, np.int64), np.zeros(1, np.int64)
    count, frame, _, _ = walk(buffer, kind, limit, 1, start, end)
    if count == 0:
        return None
    prefix = int(start[0])
    count = len(buffer) // frame
    if kind != VARINT:
        prefixes = np.ndarray((count,), f"u{kind}", buffer, 0, (frame,))
        return EqualLengths(count, frame, prefix) if (prefixes == prefixes[0]).all() else None
    for place in range(prefix):
        column = np.ndarray((count,), np.uint8, buffer, place, (frame,))
        if not (column == column[0]).all():
            return None
    return EqualLengths(count, frame, prefix)


class LengthPrefixedSplitter(BufferedSplitter):
    def __init__(self, kind: int, max_record_bytes: int) -> None:
        super().__init__(max_record_bytes)
        self._kind = kind

    def _cut(self, buffer: bytes | bytearray) -> Cut:
        walked = self._walked(buffer)
        if walked.status == FINE:
            return Cut(head(buffer, walked.used), walked.records, walked.used, walked.need)
        if walked.status == TOO_LONG:
            _, used, need, _ = walk(memoryview(buffer)[walked.used :], self._kind, MOST_BYTES, 1, [], [])
            error = too_long(max(used, need), self._limit, buffer, walked.used)
        else:
            error = bad_frame("a varint of more than 10 bytes: expected a length", buffer, walked.used)
        return Cut(head(buffer, walked.used), walked.records, walked.used, error=error)

    def _walked(self, buffer: bytes | bytearray) -> WalkResult:
        alike = equal_frames(buffer, self._kind, self._limit)
        if alike is None:
            return WALKER(buffer, self._kind, self._limit, NO_POSITIONS, NO_POSITIONS)
        whole = alike.records * alike.frame
        rest = WALKER(memoryview(buffer)[whole:], self._kind, self._limit, NO_POSITIONS, NO_POSITIONS)
        return WalkResult(alike.records + rest.records, whole + rest.used, rest.need, rest.status)


class LengthPrefixedJoiner:
    def __init__(self, kind: int) -> None:
        self._kind = kind

    def join(self, data: pa.BinaryArray) -> bytes | memoryview:
        lengths = value_lengths(data)
        if self._kind == VARINT:
            return with_heads(data, *varints(lengths))
        prefixes = lengths.astype(f">u{self._kind}").view(np.uint8).reshape(len(lengths), self._kind)
        return with_heads(data, prefixes, np.full(len(lengths), self._kind, np.int64))


def varints(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each value as a varint: a row of bytes, and how many of them count."""
    widths = np.ones(len(values), np.int64)
    most = int(values.max()) if len(values) else 0
    groups = max(1, (most.bit_length() + 6) // 7)
    for place in range(1, groups):
        widths += values >= 1 << (7 * place)
    rows = np.empty((len(values), groups), np.uint8)
    for place in range(groups):
        rows[:, place] = (values >> (7 * place) & 127) | np.where(widths > place + 1, 128, 0)
    return rows, widths
