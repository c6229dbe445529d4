"""How many rows the next batch may hold, so that batches last about as long as wanted."""

from __future__ import annotations

FIRST_ROWS = 20_000
LEAST_ROWS = 1_000
BACKLOG_BATCHES = 5
BACKLOG_FACTOR = 5
"""This many batches behind, latency is lost anyway: batches may last longer, which costs fewer triggers."""


class Pace:
    """Grows while batches are full and quick, shrinks while they are slow."""

    def __init__(self, target_ms: int, max_rows: int) -> None:
        self._target = target_ms / 1000
        self._max = max_rows
        self.rows = min(FIRST_ROWS, max_rows)
        self._began: float | None = None
        self._given = 0
        self._behind = False

    def given(self, now: float, rows: int, lag: int = 0) -> None:
        """A batch of `rows` begins, of `lag` that wait."""
        self._began, self._given, self._behind = now, rows, lag > rows * BACKLOG_BATCHES

    def asked(self, now: float) -> None:
        """The next batch is asked for, so the last one is over."""
        if self._began is None:
            return
        seconds, self._began = max(now - self._began, 0.001), None
        target = self._target * (BACKLOG_FACTOR if self._behind else 1)
        full = self._given >= self.rows * 0.9
        if seconds > target * 1.5 and self._given > LEAST_ROWS:
            self.rows = max(LEAST_ROWS, int(self._given * max(target / seconds, 0.5)))
        elif full and seconds < target * 0.9:
            # A trigger has a fixed cost, so twice the rows take less than twice the time.
            self.rows = min(self._max, int(self.rows * min(2.0, target / seconds)))
