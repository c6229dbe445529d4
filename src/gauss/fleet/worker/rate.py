"""Limits the rows per second of an instance without blocking it."""

from __future__ import annotations

import time


class RateLimit:
    """Rows are counted when they are committed; the next ones wait until the rate is met again."""

    def __init__(self) -> None:
        self._debt = 0.0
        self._at = time.monotonic()

    def add(self, rows: int) -> None:
        self._debt += rows

    def is_exceeded(self, per_second: float) -> bool:
        """Whether to wait. 0: no limit."""
        now = time.monotonic()
        elapsed, self._at = now - self._at, now
        if per_second <= 0:
            self._debt = 0.0
            return False
        self._debt = max(self._debt - elapsed * per_second, 0.0)
        return self._debt > 0
