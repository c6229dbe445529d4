"""The cache: which states of a chain exist, where they are, and which must not be removed at the moment."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gauss.dbstates.statefs.statefs import StateFS, partial
from gauss.dbstates.store.layout import Layout
from gauss.dbstates.store.metadata import Row
from gauss.dbstates.store.states import StatePlace, States

REMOVED = ".removed-"


class Cache:
    """Looks states up and removes them. A pinned state is in use and stays."""

    def __init__(self, layout: Layout, states: States, statefs: StateFS) -> None:
        self._layout, self._states, self._statefs = layout, states, statefs
        self._pins: Counter[str] = Counter()
        self.lock = threading.RLock()
        """Held while states are chosen for removal, so that none is pinned meanwhile."""

    @contextmanager
    def pinned(self, states: Sequence[str]) -> Iterator[None]:
        """Keeps states, existing or not, inside the block."""
        with self.lock:
            self._pins.update(states)
        try:
            yield
        finally:
            with self.lock:
                self._pins.subtract(states)
                for state in states:
                    if self._pins[state] <= 0:
                        del self._pins[state]

    def is_pinned(self, state: str) -> bool:
        return self._pins[state] > 0

    def deepest(self, chain: Sequence[str]) -> int:
        """How many steps of a chain need no execution: the number of the last one whose state exists."""
        return max((number for number, state in enumerate(chain, 1) if self._states.is_ready(state)), default=0)

    def path(self, place: StatePlace | Row) -> Path:
        row = vars(place) if isinstance(place, StatePlace) else place
        return self._layout.state(row["engine"], row["version"], row["id"])

    def put_aside(self, rows: Sequence[Row]) -> list[Path]:
        """Renames the folders of states whose rows are gone, so that they can be made anew at once; returns what is to
        be removed. Called with the lock."""
        aside = []
        for row in rows:
            path = self.path(row)
            if path.exists():
                place = path.with_name(f"{path.name}{REMOVED}{secrets.token_hex(4)}")
                path.rename(place)
                aside.append(place)
            aside.append(partial(path))
        return aside

    def clear(self, aside: Sequence[Path]) -> None:
        """Removes what was put aside. Takes time; called without the lock."""
        for path in aside:
            self._statefs.remove_path(path)

    def remove_partial(self, place: StatePlace | Row) -> None:
        """Removes what an interrupted creation has left."""
        path = self.path(place)
        self._statefs.remove_path(path)
        self._statefs.remove_path(partial(path))

    def remove_unknown(self) -> int:
        """Removes folders that belong to no ready state; returns how many. Called before any job runs."""
        known = {row["id"] for row in self._states.all() if row["status"] == "ready"}
        found = [path for path in self._layout.engines.glob("*/*/states/*") if path.name not in known]
        found += self._layout.engines.glob("*/*/base/*.partial")
        for path in found:
            self._statefs.remove_path(path)
        return len(found)
