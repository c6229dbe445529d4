"""Memory that nobody uses any more, given back to the system."""

from __future__ import annotations

import ctypes
import threading

_trimming = threading.Lock()


def give_back() -> None:
    """Returns free pages of the C heap, which keeps them otherwise for as long as the process lives."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc alone has it
        with _trimming:
            trim(ctypes.c_size_t(0))
