"""The base of all splitters: it buffers incomplete records and reports bad bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from gauss.contracts.framing import Buffer, Frames
from gauss.model.errors import FrameError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MOST_BAD_BYTES = 1 << 20
"""Bytes of unframeable input kept for the dead letter."""


class Cut(NamedTuple):
    """The records found in the buffer."""

    payload: bytes | memoryview | pa.BinaryArray
    records: int
    used: int
    """Consumed bytes at the start of the buffer."""
    need: int = 1
    """Bytes needed after those before another record can be complete."""
    error: FrameError | None = None
    more: bool = False
    """Whether the rest may hold whole records too."""
    bounds: tuple[np.ndarray, np.ndarray] | None = None
    """Content positions of the records, if they were searched."""


class BufferedSplitter(ABC):
    """Scans the buffer only when a record can be complete, so that a large one is scanned once."""

    def __init__(self, max_record_bytes: int) -> None:
        self._limit = max_record_bytes
        self._held = bytearray()
        self._need = 1
        self._error: FrameError | None = None
        self._more = False

    def held(self) -> int:
        return len(self._held)

    @abstractmethod
    def _cut(self, buffer: bytes | bytearray) -> Cut:
        """The complete records at the start of `buffer`."""

    def _nothing(self) -> Frames:
        return Frames(b"", 0)

    def _may_cut(self, fresh: int) -> bool:  # noqa: ARG002
        """Whether the held bytes, the last `fresh` of them new, can hold a whole record or an error."""
        return len(self._held) >= self._need

    def feed(self, data: Buffer) -> Frames:
        if self._error is not None:
            raise _again(self._error)
        fresh = len(data)
        if fresh == 0 and not self._more:
            return self._nothing()
        buffer: bytes | bytearray
        if self._held or fresh < self._need:
            self._held += data
            if not self._more and not self._may_cut(fresh):
                return self._nothing()
            buffer = self._held
        else:
            buffer = bytes(data)  # copies unless it is bytes: the caller may reuse its buffer
        cut = self._cut(buffer)
        # A new bytearray each time: the payload may look into the old one.
        self._held = bytearray() if cut.error else bytearray(memoryview(buffer)[cut.used :])
        self._need = cut.need
        self._error = cut.error
        self._more = cut.more
        if cut.error is not None and cut.records == 0:
            raise _again(cut.error)
        return Frames(cut.payload, cut.records, cut.bounds)

    def finish(self) -> None:
        if self._error is not None:
            raise _again(self._error)
        if self._held:
            raise FrameError(
                f"the stream ended in mid-record, {len(self._held)} bytes after the last whole one",
                reason="truncated",
                bad=bytes(self._held[:MOST_BAD_BYTES]),
                hint="the sender must finish its last frame before it closes",
            )


def _again(error: FrameError) -> FrameError:
    """The same error, to be raised: one that was raised knows the frames that held the buffer, and would keep it for as
    long as it is kept itself."""
    return FrameError(error.message, reason=error.reason, bad=error.bad, hint=error.hint)


def head(buffer: bytes | bytearray, size: int) -> bytes | memoryview:
    """The first `size` bytes of a buffer that no longer changes."""
    if size == len(buffer) and isinstance(buffer, bytes):
        return buffer
    return memoryview(buffer).toreadonly()[:size]


def too_long(length: int, limit: int, buffer: Buffer, start: int) -> FrameError:
    """A record above `max_record_bytes`."""
    return FrameError(
        f"a record of {length} bytes or more: expected at most max_record_bytes = {limit}",
        reason="too_long",
        bad=bytes(memoryview(buffer)[start : start + MOST_BAD_BYTES]),
        hint="raise max_record_bytes, or check that the sender uses this framing",
    )


def bad_frame(what: str, buffer: Buffer, start: int) -> FrameError:
    """Bytes that this framing never writes."""
    return FrameError(
        what,
        reason="bad_frame",
        bad=bytes(memoryview(buffer)[start : start + MOST_BAD_BYTES]),
        hint="check that the sender uses this framing",
    )
