"""Adapts the number of rows in a batch so that batches take about the target time."""

from __future__ import annotations

FIRST_ROWS = 20_000
LEAST_ROWS = 1_000
BACKLOG_SECONDS = 1.0
BACKLOG_FACTOR = 5
"""Factor of the target time with more than BACKLOG_SECONDS of work waiting: latency is high anyway, and longer batches
need fewer triggers."""
MOST_GROWTH = 16.0
"""Maximum growth from one batch to the next, in case the next records cost far more."""


class Pace:
    """The row limit of batches: grows while they are full and fast, shrinks while they are slow."""

    def __init__(self, target_ms: int, max_rows: int, least_rows: int = LEAST_ROWS) -> None:
        self._target = target_ms / 1000
        self._max = max_rows
        self._least = min(max(least_rows, LEAST_ROWS), max_rows)
        self.rows = min(max(FIRST_ROWS, self._least), max_rows)
        self._began: float | None = None
        self._given = 0
        self._left = 0

    def given(self, now: float, rows: int, lag: int = 0) -> None:
        """Records the start of a batch of `rows` out of `lag` waiting rows."""
        self._began, self._given, self._left = now, rows, lag - rows

    def asked(self, now: float) -> None:
        """Records the request of the next batch, which ends the last one, and adapts the limit."""
        if self._began is None:
            return
        seconds, self._began = max(now - self._began, 0.001), None
        behind = self._left > self._given / seconds * BACKLOG_SECONDS
        target = self._target * (BACKLOG_FACTOR if behind else 1)
        full = self._given >= self.rows * 0.9
        if seconds > target * 1.5 and self._given > self._least:
            self.rows = max(self._least, int(self._given * max(target / seconds, 0.5)))
        elif full and seconds < target * 0.9:
            # A trigger has a fixed cost: twice the rows take less than twice the time.
            self.rows = min(self._max, int(self.rows * min(MOST_GROWTH, target / seconds)))
