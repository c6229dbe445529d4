"""How long ago the end of a partition passed an offset: the age of the oldest record that is not yet committed."""

from __future__ import annotations

from collections import deque

MOST_LOOKS = 600


class PassedEnds:
    """The ends of one partition, with the times at which they were first seen."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def see(self, end: int, now: float) -> None:
        if self._looks and end <= self._looks[-1][1]:
            return
        if len(self._looks) >= MOST_LOOKS:  # half as exact, twice as far back
            kept = list(self._looks)
            self._looks = deque([kept[0], *kept[2::2]])
        self._looks.append((now, end))

    def behind(self, next_offset: int, now: float) -> float | None:
        """Seconds since the end passed an offset. None if it has not, or did so before the first look."""
        while len(self._looks) > 1 and self._looks[1][1] <= next_offset:
            self._looks.popleft()
        for at, end in list(self._looks)[1:]:
            if end > next_offset:
                return None if self._looks[0][1] > next_offset else now - at
        return None
