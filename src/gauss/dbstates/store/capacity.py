"""The disk space that states take, and which are evicted when it is short."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from gauss.dbstates.repeating import Repeating
from gauss.dbstates.settings import CapacitySettings
from gauss.dbstates.statefs.exclusive import disk_use, union_bytes
from gauss.dbstates.store.cache import Cache
from gauss.dbstates.store.layout import Layout
from gauss.dbstates.store.metadata import Row, now_ms
from gauss.dbstates.store.states import States
from gauss.dbstates.telemetry.audit import Audit
from gauss.dbstates.telemetry.metrics import Metrics
from gauss.process.identity import boot_id

PAUSE_SECONDS = 2.0
LOOK_PAUSE = 20
"""After a look at all states, those that follow from the end of instances wait for this many times its duration."""


@dataclass(frozen=True)
class Usage:
    """The space that the store takes, and may take."""

    used: int
    capacity: int

    @property
    def share(self) -> float:
        return self.used / self.capacity if self.capacity else 1.0


class Capacity:
    """Measures states in the background, and evicts those that nothing needs, the least used first."""

    def __init__(
        self,
        layout: Layout,
        states: States,
        cache: Cache,
        *,
        instances: Callable[[], list[Row]],
        synced: Callable[[], None],
        settings: Callable[[], CapacitySettings],
        metrics: Metrics,
        audit: Audit,
    ) -> None:
        """`synced` is called when all files are on disk."""
        self._layout, self._states, self._cache = layout, states, cache
        self._instances, self._synced = instances, synced
        self._settings, self._metrics, self._audit = settings, metrics, audit
        self._known: frozenset[str] = frozenset()
        self._sharing: frozenset[str] = frozenset()
        """The instances that states may have shared bytes with when they were measured."""
        self._next_look = 0.0
        self._shared = 0
        """Bytes that states share with each other or with instances."""
        self._lock = threading.Lock()
        self._keeping = Repeating("capacity", PAUSE_SECONDS, self.keep)

    def start(self) -> None:
        self._keeping.start()

    def stop(self) -> None:
        self._keeping.stop()

    def keep(self) -> None:
        """Syncs, measures and evicts."""
        self.sync()
        self.measure()
        self.make_room()

    def sync(self) -> None:
        """Waits until new states are on disk, so that they are used after a loss of power."""
        if volatile := self._states.volatile():
            folder = os.open(self._layout.root, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if not ctypes.CDLL(None).syncfs(folder):
                    self._states.durable(volatile)
                    self._synced()
            finally:
                os.close(folder)

    def measure(self) -> None:
        """Measures all states again if there are others than the last time, or instances have gone: what one shares
        depends on the others."""
        with self._lock:
            rows = [row for row in self._states.all() if row["status"] == "ready"]
            found = frozenset(row["id"] for row in rows)
            instances = frozenset(row["id"] for row in self._instances())
            gone = bool(self._sharing - instances) and time.monotonic() >= self._next_look
            if found == self._known and not gone and all(row["bytes"] is not None for row in rows):
                return
            began = time.monotonic()
            shared = list[tuple[int, int]]()
            for row in rows:
                if self._keeping.stopped.is_set():
                    return
                use = disk_use(self._cache.path(row))
                self._states.measured(row["id"], use.total, use.exclusive)
                shared += use.shared
            self._known, self._shared, self._sharing = found, union_bytes(shared), instances
            now = time.monotonic()
            self._next_look = now + (now - began) * LOOK_PAUSE

    def usage(self) -> Usage:
        """What is used of the capacity. Without a limit the capacity is what is used and what is free."""
        most = self._settings().maxBytes
        stat = shutil.disk_usage(self._layout.root)
        rows = [row for row in self._states.all() if row["status"] == "ready"]
        used = sum(row["exclusive_bytes"] or 0 for row in rows) + (self._shared if rows else 0)
        if most is not None:
            return Usage(used, most)
        return Usage(used, used + stat.free)

    def make_room(self) -> list[str]:
        """Evicts states from the high to the low water mark; returns them."""
        settings = self._settings()
        usage = self.usage()
        if usage.share < settings.highWater:
            return []
        self.measure()
        evicted = []
        while (usage := self.usage()).share > settings.lowWater:
            with self._cache.lock:  # so that no job pins it in between
                row = self._candidate(settings)
                if row is None:
                    break
                self._states.remove([row["id"]])
                aside = self._cache.put_aside([row])
            self._cache.clear(aside)
            evicted.append(row["id"])
            self._metrics.count("states_evicted_total")
            self._audit.note("state_evicted", state_id=row["id"], exclusive_bytes=row["exclusive_bytes"])
            self.measure()
        return evicted

    def _candidate(self, settings: CapacitySettings) -> Row | None:
        """The state to evict next: a leaf that nothing uses, with the most bytes per use, the longest unused first."""
        oldest = now_ms() - settings.minStateAgeSecs * 1000
        rows = [row for row in self._states.all() if row["status"] == "ready"]
        parents = {row["parent"] for row in rows}
        cloned = {row["state"] for row in self._instances()}
        free = [
            row
            for row in rows
            if row["id"] not in parents
            and row["created_ms"] <= oldest
            and not self._cache.is_pinned(row["id"])
            and row["id"] not in cloned
        ]
        return max(free, key=_weight, default=None)


def _weight(row: Row) -> tuple[float, int]:
    """Bytes that come free, by time unused; fewer for states with hits."""
    unused = max(now_ms() - row["used_ms"], 1)
    return ((row["exclusive_bytes"] or 0) * unused / (1 + row["hits"]), -row["used_ms"])


def forget_unsynced(states: States, cache: Cache) -> list[str]:
    """Marks the states failed that were not known to be on disk when the machine went down."""
    lost = states.written_before(boot_id())
    for row in lost:
        states.lose(row["id"])
        cache.remove_partial(row)
    return [row["id"] for row in lost]
