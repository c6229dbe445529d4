"""Memory that nobody uses any more, given back to the system: glibc would keep it for as long as the process lives."""

from __future__ import annotations

import ctypes
import functools
import threading

MAPPED_BYTES, SPARE_BYTES, ARENAS = 4 << 20, 64 << 20, 2
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_trimming = threading.Lock()


@functools.cache
def keep_heap_small() -> None:
    """Bounds the free memory that heaps keep, and their number, which grow with use and with threads else. Below the
    bounds it is kept: to get a page anew costs more than to copy it."""
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:  # glibc alone has it
        limit(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        limit(_M_TRIM_THRESHOLD, SPARE_BYTES)
        limit(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Returns free pages inside the heaps."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        with _trimming:
            trim(ctypes.c_size_t(0))
