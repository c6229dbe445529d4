"""Instances of hot states that are started before they are asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gauss.dbstates.instances.manager import Instances, Origin
from gauss.dbstates.runtimes.runtime import Build
from gauss.dbstates.settings import WarmPoolSettings
from gauss.dbstates.store.cache import Cache
from gauss.dbstates.telemetry.metrics import Metrics
from gauss.model.errors import GaussError

PAUSE_SECONDS = 1.0
"""How often cold states are looked for."""
log = logging.getLogger("gauss.dbstates")


@dataclass
class _Hot:
    """A state that is asked for."""

    build: Build
    source: Path
    hits: int = 0
    asked: float = 0.0
    ready: deque[str] = field(default_factory=deque)


class WarmPool:
    """Keeps instances of hot states ready. One thread fills it, so that clients' own starts are not held up."""

    def __init__(
        self, instances: Instances, cache: Cache, settings: Callable[[], WarmPoolSettings], metrics: Metrics
    ) -> None:
        self._instances, self._cache, self._settings, self._metrics = instances, cache, settings, metrics
        self._states: dict[str, _Hot] = {}
        self._surplus: list[str] = []
        """Instances that nobody will get: their servers have ended, or the pool has become smaller."""
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="warm-pool", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self, state: str, build: Build, source: Path, job: str) -> str | None:
        """A warm instance of a state, which is the job's from here on. Counts as a hit."""
        with self._lock:
            hot = self._states.setdefault(state, _Hot(build, source))
            hot.hits += 1
            hot.asked = time.monotonic()
            found = None
            while hot.ready and found is None:
                found = hot.ready.popleft()
                if self._instances.server(found) is None:
                    self._surplus.append(found)
                    found = None
        self._wanted.set()
        if found is not None:
            self._instances.hand_out(found, state, job)
            self._metrics.count("warm_hits_total")
        return found

    def ready(self, state: str) -> int:
        """How many instances of a state wait."""
        with self._lock:
            return len(self._states[state].ready) if state in self._states else 0

    def drop(self, states: set[str]) -> None:
        """Forgets states that are removed, with their warm instances."""
        with self._lock:
            gone = [self._states.pop(state) for state in states if state in self._states]
        for hot in gone:
            self._remove(*hot.ready)

    def _remove(self, *instances: str) -> None:
        for instance in instances:
            with suppress(GaussError):  # it is removed later
                self._instances.remove(instance)

    def _fill(self) -> None:
        while not self._stopped.is_set():
            self._wanted.wait(PAUSE_SECONDS)
            self._wanted.clear()
            try:
                self._drop_cold()
                self._drop_surplus()
                while not self._stopped.is_set() and (state := self._lacking()) is not None:
                    self._add(state)
            except GaussError as error:
                log.warning("the warm pool: %s", error.message)
                self._stopped.wait(PAUSE_SECONDS)
            except Exception:  # such as a full disk; the thread must not end
                log.exception("the warm pool")
                self._stopped.wait(PAUSE_SECONDS)

    def _lacking(self) -> str | None:
        """The hot state with the fewest instances ready."""
        settings = self._settings()
        with self._lock:
            hot = [
                (len(each.ready), -each.asked, state)
                for state, each in self._states.items()
                if each.hits >= settings.afterHits and len(each.ready) < settings.size
            ]
        return min(hot)[2] if hot else None

    def _add(self, state: str) -> None:
        with self._lock:
            hot = self._states.get(state)
        if hot is None:
            return
        with self._cache.pinned([state]):
            if not (hot.source / "PG_VERSION").exists():
                self.drop({state})
                return
            instance = self._instances.start(hot.build, hot.source, Origin(state, "")).id
        with self._lock:
            if self._states.get(state) is hot:
                hot.ready.append(instance)
                return
        self._remove(instance)

    def _drop_surplus(self) -> None:
        size = self._settings().size
        with self._lock:
            for hot in self._states.values():
                while len(hot.ready) > size:
                    self._surplus.append(hot.ready.popleft())
            gone, self._surplus = self._surplus, []
        self._remove(*gone)

    def _drop_cold(self) -> None:
        settings = self._settings()
        before = time.monotonic() - settings.idleSecs
        with self._lock:
            cold = {state for state, each in self._states.items() if each.asked < before}
        self.drop(cold)
