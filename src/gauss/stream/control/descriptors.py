"""File descriptors of control: as many as the system allows, and a few kept back for the watchers of children."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOST = 1 << 20
"""Some systems have a hard limit of 2^30, and programs that look at each possible descriptor at their start."""
RESERVED = 32
"""Two pipes, a spawn and a file, with room for several watchers at once."""


def raise_limit() -> None:
    """Raises this process's limit on open files to the hard limit; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Reserve:
    """Descriptors that only watchers use: clients of the API which take all others can't keep a dead child dead. Filled
    by the first use."""

    def __init__(self, count: int = RESERVED) -> None:
        self._count = count
        self._kept: list[int] = []
        self._users = 0
        self._lock = threading.Lock()

    @contextmanager
    def released(self) -> Iterator[None]:
        """While it lasts the reserved descriptors are free."""
        with self._lock:
            self._users += 1
            while self._kept:
                os.close(self._kept.pop())
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._fill()

    def _fill(self) -> None:
        with suppress(OSError):  # what others took meanwhile is tried for again next time
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
