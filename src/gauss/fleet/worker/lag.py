"""How long ago the end of a partition passed an offset: the age of the oldest record that is not yet committed."""

from __future__ import annotations

from collections import deque

MOST_LOOKS = 600


class PassedEnds:
    """The ends of one partition, with the times at which they were first seen."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()
        self._apart = 0.0
        """Seconds between looks that are kept, at least: it grows with the time for which nothing was committed."""

    def see(self, end: int, now: float) -> None:
        if self._looks and (end <= self._looks[-1][1] or now - self._looks[-1][0] < self._apart):
            return
        if len(self._looks) >= MOST_LOOKS:
            self._thin(now)
        self._looks.append((now, end))

    def _thin(self, now: float) -> None:
        """Leaves half of the looks at most, the same time apart from each other."""
        looks, self._looks = self._looks, deque()
        self._apart = 2 * (now - looks[0][0]) / MOST_LOOKS
        for look in looks:
            if not self._looks or look[0] - self._looks[-1][0] >= self._apart:
                self._looks.append(look)

    def behind(self, next_offset: int, now: float) -> float | None:
        """Seconds since the end passed an offset. None if it has not, or did so before the first look."""
        while len(self._looks) > 1 and self._looks[1][1] <= next_offset:
            self._looks.popleft()
        if len(self._looks) == 1:
            self._apart = 0.0
        if not self._looks or self._looks[0][1] > next_offset:
            return None
        return next((now - at for at, end in self._looks if end > next_offset), None)
