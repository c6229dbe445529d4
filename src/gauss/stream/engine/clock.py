"""The engine's clock: the system's, or one that a test controls by a file of the data directory."""

from __future__ import annotations

import time
from collections.abc import Callable

from gauss.model.paths import DataDir

Clock = Callable[[], int]
"""Unix ms."""


def system_ms() -> int:
    return time.time_ns() // 1_000_000


def clock_of(paths: DataDir) -> Clock:
    """A clock in a file, so that a restarted process has the same time."""
    if not paths.clock.exists():
        return system_ms
    return lambda: int(paths.clock.read_text())
