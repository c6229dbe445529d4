"""Memory that nobody uses any more, given back to the system: glibc would keep it for as long as the process lives."""

from __future__ import annotations

import ctypes
import functools
import threading

LARGE_BYTES = 4 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_trimming = threading.Lock()


@functools.cache
def keep_heap_small() -> None:
    """Has blocks above 4 MiB mapped one by one, and freed ends of heaps returned: both limits grow with use else."""
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:  # glibc alone has it
        limit(_M_MMAP_THRESHOLD, LARGE_BYTES)
        limit(_M_TRIM_THRESHOLD, LARGE_BYTES)


def give_back() -> None:
    """Returns free pages inside the heaps."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        with _trimming:
            trim(ctypes.c_size_t(0))
