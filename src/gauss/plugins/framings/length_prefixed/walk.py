"""The walk from length to length: one plain function, compiled in the background once there is work for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gauss.contracts.framing import Buffer

log = logging.getLogger(__name__)

VARINT = 0
"""The prefix kind; a positive kind is the number of bytes, big end first."""

FINE, TOO_LONG, OVERLONG = 0, 1, 2

WORTH_COMPILING = 20_000
"""Records walked uncompiled (some 20 ms) before numba is loaded: it costs a second and 120 MB."""


class Walked(NamedTuple):
    """How far the walk came."""

    records: int
    used: int
    need: int
    """Bytes after `used` that make the next record whole, as far as is known."""
    status: int


def walk(  # noqa: PLR0917
    data: Any, kind: int, limit: int, most: int, starts: Any, ends: Any
) -> tuple[int, int, int, int]:
    """Steps over at most `most` whole frames; fills `starts` and `ends` unless they are empty.

    `data` is bytes, or int8 for the compiler: unsigned bytes would make it calculate in floats, hence `& 255`.
    """
    size = len(data)
    keep = len(starts) > 0
    position = 0
    count = 0
    while count < most:
        body = position
        length = 0
        if kind == 4:
            if size - position < 4:
                return count, position, 4, 0
            length = (data[body] & 255) << 24 | (data[body + 1] & 255) << 16
            length |= (data[body + 2] & 255) << 8 | (data[body + 3] & 255)
            body += 4
        elif kind == 2:
            if size - position < 2:
                return count, position, 2, 0
            length = (data[body] & 255) << 8 | (data[body + 1] & 255)
            body += 2
        else:
            shift = 0
            byte = 128
            while byte >= 128:
                if shift == 70:
                    return count, position, 0, 2
                if body >= size:
                    return count, position, size - position + 1, 0
                byte = data[body] & 255
                body += 1
                if shift < 42:
                    length |= (byte & 127) << shift
                elif byte & 127:
                    length = 1 << 62  # far above any limit, and still no overflow
                shift += 7
        if length > limit:
            return count, position, 0, 1
        if size - body < length:
            return count, position, body - position + length, 0
        if keep:
            starts[count] = body
            ends[count] = body + length
        position = body + length
        count += 1
    return count, position, 1, 0


class Walker:
    """Calls the walk in the form that is ready."""

    def __init__(self) -> None:
        self._compiled: Callable[..., tuple[int, int, int, int]] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._walked = 0

    def __call__(self, data: Buffer, kind: int, limit: int, starts: np.ndarray, ends: np.ndarray) -> Walked:
        if self._compiled is not None:
            array = np.frombuffer(memoryview(data).toreadonly(), dtype=np.int8)
            return Walked(*self._compiled(array, kind, limit, len(array), starts, ends))
        walked = Walked(*walk(data, kind, limit, len(data), starts, ends))
        self._walked += walked.records
        if self._walked > WORTH_COMPILING and self._thread is None:
            self.start_compiling()
        return walked

    @property
    def is_compiled(self) -> bool:
        return self._compiled is not None

    def start_compiling(self) -> threading.Thread:
        """Compiles in a thread of its own; callers go on with the plain function until it is done."""
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
            except RuntimeError:  # no folder to cache in that can be written
                self._compiled = numba.njit(signature)(walk)
        except Exception:  # a framing without a compiler is slow, not broken
            log.warning("length_prefixed framing stays uncompiled, and slow for small records", exc_info=True)


WALKER = Walker()
"""One for all connections."""
