"""The walk from length to length: plain Python, compiled in the background after many records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gauss.contracts.framing import Buffer

log = logging.getLogger(__name__)

VARINT, U16, U32 = 0, 2, 4
"""Kinds of prefixes; a fixed one is its number of bytes, big-endian."""

FINE, TOO_LONG, OVERLONG = 0, 1, 2
"""How a walk ends: at the end of the data, at a frame above the limit, at a varint of more than ten bytes."""

WORTH_COMPILING = 20_000
"""Records walked in plain Python (some 20 ms) before numba is loaded, which takes a second and 120 MB."""


class WalkResult(NamedTuple):
    """The result of a walk."""

    records: int
    used: int
    need: int
    """Bytes after `used` that the next record has at least."""
    status: int


def walk(  # noqa: PLR0917
    data: Any, kind: int, limit: int, most: int, starts: Any, ends: Any
) -> tuple[int, int, int, int]:
    """Walks over at most `most` complete frames; fills `starts` and `ends` unless they are empty.

    `data` is bytes, or int8 for machine code, in which unsigned bytes would become floats; hence `& 255`.
    """
    size = len(data)
    keep = len(starts) > 0
    position = 0
    count = 0
    while count < most:
        body = position
        length = 0
        if kind == U32:
            if size - position < 4:
                return count, position, U32, FINE
            length = (data[body] & 255) << 24 | (data[body + 1] & 255) << 16
            length |= (data[body + 2] & 255) << 8 | (data[body + 3] & 255)
            body += 4
        elif kind == U16:
            if size - position < 2:
                return count, position, U16, FINE
            length = (data[body] & 255) << 8 | (data[body + 1] & 255)
            body += 2
        else:
            shift = 0
            byte = 128
            while byte >= 128:
                if shift == 70:
                    return count, position, 0, OVERLONG
                if body >= size:
                    return count, position, size - position + 1, FINE
                byte = data[body] & 255
                body += 1
                if shift < 42:
                    length |= (byte & 127) << shift
                elif byte & 127:
                    length = 1 << 62  # above any limit, without an overflow
                shift += 7
        if length > limit:
            return count, position, 0, TOO_LONG
        if size - body < length:
            return count, position, body - position + length, FINE
        if keep:
            starts[count] = body
            ends[count] = body + length
        position = body + length
        count += 1
    return count, position, 1, FINE


class Walker:
    """Calls the compiled walk, or the plain one until that is ready."""

    def __init__(self) -> None:
        self._compiled: Callable[..., tuple[int, int, int, int]] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._walked = 0

    def __call__(self, data: Buffer, kind: int, limit: int, starts: np.ndarray, ends: np.ndarray) -> WalkResult:
        if self._compiled is not None:
            array = np.frombuffer(memoryview(data).toreadonly(), dtype=np.int8)
            return WalkResult(*self._compiled(array, kind, limit, len(array), starts, ends))
        walked = WalkResult(*walk(data, kind, limit, len(data), starts, ends))
        self._walked += walked.records
        if self._walked > WORTH_COMPILING and self._thread is None:
            self.start_compiling()
        return walked

    def start_compiling(self) -> threading.Thread:
        """Compiles the walk in a thread; callers use the plain function until it is done."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._compile, name="compile-framing", daemon=True)
                self._thread.start()
            return self._thread

    def _compile(self) -> None:
        try:
            import numba

            types = numba.types
            positions = types.Array(types.int64, 1, "C")
            source = types.Array(types.int8, 1, "C", readonly=True)
            signature = types.UniTuple(types.int64, 4)(
                source, types.int64, types.int64, types.int64, positions, positions
            )
            try:
                self._compiled = numba.njit(signature, cache=True)(walk)
            except RuntimeError:  # no writable cache folder
                self._compiled = numba.njit(signature)(walk)
        except Exception:  # without a compiler the framing is slow, not broken
            log.warning("length_prefixed: the walk can't be compiled; small records will be slow", exc_info=True)


WALKER = Walker()
"""Shared by all connections."""
