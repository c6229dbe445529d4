"""The loop over libpq's PQgetCopyData, compiled to machine code.

psycopg returns one Python object per row, which takes 1.4 µs of CPU time; the loop takes 0.08 µs (`bench/pg_copy.py`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

USED, ROWS, PENDING_ADDRESS, PENDING_LENGTH = range(4)
"""Indexes of `CopyBuffer.state`: bytes and rows in the buffer, and a row of libpq that did not fit."""

FULL = 1
"""The buffer is full. Other results are those of PQgetCopyData: 0 if there is no whole row yet, -1 after the last row,
-2 after an error."""


class CopyBuffer(NamedTuple):
    """Rows of COPY one after the other."""

    body: np.ndarray
    ends: np.ndarray
    """By row: where it ends in `body`."""
    state: np.ndarray


@functools.cache
def compiled_loop() -> Callable[[int, CopyBuffer, int], int] | None:
    """A function of (address of the PGconn, buffer, bytes that make it full); None if libpq is not found."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next((line.split(maxsplit=5)[5] for line in maps if "/libpq" in line), None)
    if path is None:
        return None
    import llvmlite.binding  # type: ignore[import-untyped]
    import numba
    from numba import types

    # The library that psycopg has loaded: another one could not read its PGconn.
    libpq, libc = ctypes.CDLL(path), ctypes.CDLL(None)
    for library, name in ((libpq, "PQgetCopyData"), (libpq, "PQfreemem"), (libc, "memcpy")):
        # Under a name of our own, so that a loop from numba's cache finds it in every process.
        llvmlite.binding.add_symbol(f"gauss_{name}", ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    get_row = types.ExternalFunction("gauss_PQgetCopyData", types.int32(types.intp, types.intp, types.int32))
    free = types.ExternalFunction("gauss_PQfreemem", types.void(types.intp))
    copy = types.ExternalFunction("gauss_memcpy", types.intp(types.intp, types.intp, types.intp))

    def loop(pgconn: int, buffer: CopyBuffer, enough: int) -> int:
        body, ends, state = buffer.body, buffer.ends, buffer.state
        cell = np.zeros(1, np.int64)
        while state[ROWS] < len(ends) and state[USED] < enough:
            address, length = state[PENDING_ADDRESS], state[PENDING_LENGTH]
            if length == 0:
                length = get_row(pgconn, cell.ctypes.data, 1)
                if length <= 0:
                    return int(length)
                address = cell[0]
            if state[USED] + length > len(body):
                state[PENDING_ADDRESS], state[PENDING_LENGTH] = address, length
                return FULL
            copy(body.ctypes.data + state[USED], address, length)
            free(address)
            state[PENDING_ADDRESS] = state[PENDING_LENGTH] = 0
            state[USED] += length
            ends[state[ROWS]] = state[USED]
            state[ROWS] += 1
        return FULL

    # Not by `model/jit.py`: the loop allocates an array, which needs numba's reference counting.
    made: Callable[[int, CopyBuffer, int], int] = numba.njit(cache=True, nogil=True)(loop)
    return made
