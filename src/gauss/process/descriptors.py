"""The limit on open files, and descriptors reserved for the watchers of children."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOST = 1 << 20
"""Some systems have a hard limit of 2^30, and some programs loop over every possible descriptor when they start."""
RESERVED = 32
"""One watcher needs two pipes, a spawn and a file; several may need them at once."""


def raise_limit() -> None:
    """Raises this process's limit on open files to the hard limit; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Reserve:
    """Descriptors that only watchers use, so that a child can be restarted when clients have taken all others. Filled
    after the first use."""

    def __init__(self, count: int = RESERVED) -> None:
        self._count = count
        self._kept: list[int] = []
        self._users = 0
        self._lock = threading.Lock()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Frees the reserved descriptors inside the block."""
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

    def close(self) -> None:
        """Frees the descriptors for good."""
        with self._lock:
            self._count = 0
            while self._kept:
                os.close(self._kept.pop())

    def _fill(self) -> None:
        with suppress(OSError):  # tried again after the next use
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
