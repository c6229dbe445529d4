"""Netstrings: a plain loop over frames, which is all that a framing needs; Arrow joins them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.framing import Buffer, Frames
from gauss.model.errors import FrameError
from gauss_sample.netstring.spec import NetstringConfig

MOST_DIGITS = 10
MOST_BAD_BYTES = 1 << 20
ANY_SIZE = 2**31 - 1


class Incomplete(Exception):
    """The frame is not all there; `need` bytes of the buffer would let the parser come further."""

    def __init__(self, need: int) -> None:
        super().__init__(need)
        self.need = need


class NetstringFraming:
    raw = True
    carries_all = True
    key: tuple[object, ...] = ("netstring",)

    def __init__(self, config: NetstringConfig) -> None:
        self._config = config

    def splitter(self, max_record_bytes: int) -> NetstringSplitter:
        return NetstringSplitter(max_record_bytes)

    def joiner(self) -> NetstringJoiner:
        return NetstringJoiner()

    def bounds(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        starts, ends = [], []
        data, position = bytes(buffer), 0
        while position < len(data):
            start, end = content(data, position, ANY_SIZE)
            starts.append(start)
            ends.append(end)
            position = end + 1
        return np.array(starts, np.int64), np.array(ends, np.int64)

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:  # noqa: ARG002
        return None


def content(data: bytes, position: int, limit: int) -> tuple[int, int]:
    """Where the content of the frame at `position` lies; raises Incomplete or FrameError."""
    colon = data.find(b":", position, position + MOST_DIGITS + 1)
    digits = data[position:colon] if colon >= 0 else data[position : position + MOST_DIGITS + 1]
    if (digits and not digits.isdigit()) or len(digits) > MOST_DIGITS or (colon >= 0 and not digits):
        raise _error("bad_frame", f"expected a length and a colon, found {digits!r}", data, position)
    if colon < 0:
        raise Incomplete(len(data) + 1)
    start, end = colon + 1, colon + 1 + int(digits)
    if end - start > limit:
        raise _error("too_long", f"a record of {end - start} bytes: expected at most {limit}", data, position)
    if len(data) <= end:
        raise Incomplete(end + 1)
    if data[end : end + 1] != b",":
        raise _error("bad_frame", f"expected a comma after the record, found {data[end : end + 1]!r}", data, position)
    return start, end


def _error(reason: str, what: str, data: bytes, position: int) -> FrameError:
    bad = data[position : position + MOST_BAD_BYTES]
    return FrameError(what, reason=reason, bad=bad, hint="check that the sender writes netstrings")


class NetstringSplitter:
    def __init__(self, max_record_bytes: int) -> None:
        self._limit = max_record_bytes
        self._held = bytearray()
        self._need = 1
        self._error: FrameError | None = None

    def feed(self, data: Buffer) -> Frames:
        if self._error is not None:
            raise self._error
        self._held += data
        if len(self._held) < self._need:  # a large record is looked at once, when it is whole
            return Frames(b"", 0)
        buffer, position, count = bytes(self._held), 0, 0
        self._need = 1
        try:
            while position < len(buffer):
                position = content(buffer, position, self._limit)[1] + 1
                count += 1
        except Incomplete as incomplete:
            self._need = incomplete.need - position
        except FrameError as error:
            self._error = error
            if count == 0:
                raise
        del self._held[:position]
        return Frames(buffer[:position], count)

    def held(self) -> int:
        return len(self._held)

    def finish(self) -> None:
        if self._error is not None:
            raise self._error
        if self._held:
            raise _error("truncated", "the stream ended in mid-record", bytes(self._held), 0)


class NetstringJoiner:
    def join(self, data: pa.BinaryArray) -> bytes:
        lengths = pc.binary_length(data).cast(pa.string()).cast(pa.binary())
        joined = pc.binary_join_element_wise(lengths, b":", data, b",", b"")
        return b"".join(joined.to_pylist())
