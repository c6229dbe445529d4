"""Pinned versions of a table and the changes since then, so that a reader of a version needs only the changes."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gauss.plugins.storages.memory.runs import Run
    from gauss.plugins.storages.memory.table import Events, Root


class HeldRoots:
    """Roots by version with reference counts. For released versions the position in the tail is kept, up to
    `tail_bytes` of later changes: readers return for the changes since their version."""

    def __init__(self, tail_bytes: int) -> None:
        self._tail_bytes = tail_bytes
        self._runs: dict[int, tuple[Run, ...]] = {}
        self._holds: dict[int, int] = {}
        self._links: deque[Events] = deque()
        self._lock = threading.Lock()

    def add(self, root: Root) -> None:
        with self._lock:
            self._holds[root.version] = self._holds.get(root.version, 0) + 1
            # Only the runs: a root also references everything that was written after it.
            self._runs.setdefault(root.version, root.runs())
            if not self._links or self._links[-1].stop < root.version:
                self._links.append(root.last)

    def remove(self, version: int) -> None:
        with self._lock:
            left = self._holds.get(version, 0) - 1
            if left > 0:
                self._holds[version] = left
                return
            self._holds.pop(version, None)
            self._runs.pop(version, None)

    def runs(self, version: int) -> tuple[Run, ...] | None:
        return self._runs.get(version)

    def oldest_link(self) -> Events | None:
        with self._lock:
            return self._links[0] if self._links else None

    def forget_tail(self, total: int) -> None:
        """Drops links too far behind `total`, the bytes of all events so far."""
        if self._links:
            with self._lock:
                while self._links and total - self._links[0].total > self._tail_bytes:
                    self._links.popleft()
