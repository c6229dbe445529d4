"""How much free memory glibc keeps, and when it returns it to the system."""

from __future__ import annotations

import ctypes
import threading

MAPPED_BYTES, SPARE_BYTES, ARENAS = 4 << 20, 64 << 20, 2
MOST_MAPPED_BYTES = 32 << 20
"""The largest block that glibc takes from a heap."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_trimming, _next_in_line = threading.Lock(), threading.Lock()


def keep_heap_small() -> None:
    """Limits the number of heaps and the free memory that they keep. Below the limit memory is kept, because a new page
    costs more than a copy; and the end of a heap is never given back by `give_back`."""
    _limit({_M_MMAP_THRESHOLD: MAPPED_BYTES, _M_TRIM_THRESHOLD: SPARE_BYTES, _M_ARENA_MAX: ARENAS})


def reuse_pages() -> None:
    """Lets a process that allocates large buffers again and again keep them, up to SPARE_BYTES: new pages from the
    system, all zeroed, took a quarter of a task's time. Forks inherit it."""
    _limit({_M_MMAP_THRESHOLD: MOST_MAPPED_BYTES, _M_TRIM_THRESHOLD: SPARE_BYTES})


def _limit(limits: dict[int, int]) -> None:
    set_limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_limit is not None:  # glibc only
        for parameter, value in limits.items():
            set_limit(parameter, value)


def give_back() -> None:
    """Returns free pages inside the heaps. What the caller has freed is returned by this call or by one that waits."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None and _next_in_line.acquire(blocking=False):
        with _trimming:
            _next_in_line.release()
            trim(ctypes.c_size_t(0))
