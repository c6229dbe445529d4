"""Samples the status of a run once a second: the engine's counters and their rates."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from gauss.model.errors import GaussError
from gauss.stream.control.holdups import Holdups
from gauss.stream.control.stall import Stalls

if TYPE_CHECKING:
    from gauss.stream.control.run import Running

INTERVAL_SECONDS = 1.0
RATED = {"topics": ("appended", "appended_bytes"), "processors": ("records", "bytes", "dead")}

HISTORY = 60
"""Samples that are kept of each rate, for sparklines."""
SMOOTHED = 5
"""Samples over which `recent` averages: Spark's batches come in bursts, between which nothing seems to flow."""

log = logging.getLogger("gauss.control")


class Sampler:
    """Keeps the latest status; `rates` of a row are per second over the last interval."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sample", daemon=True)
        self._seen: dict[tuple[str, str], tuple[float, dict[str, Any]]] = {}
        self._stalls = Stalls(running.pipeline.spark.stall_after / 1000)
        self.holdups = Holdups()
        self._rows: dict[str, list[dict[str, Any]]] = {"topics": [], "processors": []}
        self._history: dict[str, dict[str, deque[float]]] = {"topics": {}, "processors": {}}
        self._last: dict[tuple[str, str], deque[dict[str, float]]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def status(self) -> dict[str, Any]:
        """Health, topics, processors and syncs in one object."""
        syncs = self._running.syncs
        return {**self._running.health(), **self._rows, "syncs": syncs.rows() if syncs is not None else []}

    @property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The newest rows of `topics` and `processors`."""
        return self._rows

    def recent(self, kind: str, name: str) -> dict[str, float]:
        """The rates of a topic or processor, averaged over the last seconds."""
        samples = list(self._last.get((kind, name), ()))
        return (
            {key: sum(each.get(key, 0.0) for each in samples) / len(samples) for key in samples[-1]} if samples else {}
        )

    def history(self) -> dict[str, dict[str, list[float]]]:
        """Records per second of each topic and processor, as `recent` has them, the newest last."""
        return {
            kind: {name: list(rates) for name, rates in list(found.items())} for kind, found in self._history.items()
        }

    def most(self, kind: str, name: str) -> float:
        """The highest rate in the history of a topic or processor."""
        return max(self._history[kind].get(name, ()), default=0.0)

    def _watch(self) -> None:
        while not self._stopping.wait(INTERVAL_SECONDS):
            if self._running.engine.state != "ready":
                continue
            try:
                self.look()
            except (GaussError, OSError) as error:
                log.info("no sample: %s", error)

    def look(self) -> None:
        """Takes one sample."""
        running = self._running
        rows = {
            "topics": running.command("topics")["topics"],
            "processors": running.command("processors.ls")["processors"],
        }
        now = time.monotonic()
        for kind, found in rows.items():
            for row in found:
                row["rates"] = self._rates(kind, row, now)
                self._last.setdefault((kind, row["name"]), deque(maxlen=SMOOTHED)).append(row["rates"])
                rates = self._history[kind].setdefault(row["name"], deque(maxlen=HISTORY))
                rates.append(round(self.recent(kind, row["name"]).get(RATED[kind][0], 0.0), 1))
        self.holdups.look(rows["topics"], now)
        self._rows = rows
        driver = running.driver
        if driver is not None and driver.state == "ready":
            if stuck := self._stalls.look(rows["processors"], rows["topics"], now):
                self._stalls.forget()
                driver.restart(f"the driver made no progress although records are waiting for {', '.join(stuck)}")
        else:
            self._stalls.forget()

    def _rates(self, kind: str, row: dict[str, Any], now: float) -> dict[str, float]:
        key = (kind, row["name"])
        then, before = self._seen.get(key, (now, row))
        self._seen[key] = (now, dict(row))
        seconds = now - then
        rates = {}
        for name in RATED[kind]:
            new, old = row.get(name), before.get(name)
            if new is not None and old is not None:
                # A restarted engine counts from zero.
                rates[name] = round((new - old if new >= old else new) / seconds, 1) if seconds else 0.0
        return rates
