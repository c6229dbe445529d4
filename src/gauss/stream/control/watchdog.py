"""Restarts a child that is alive but does not answer: suspended, or stuck while it holds the interpreter lock."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from gauss.model.errors import GaussError

if TYPE_CHECKING:
    from gauss.stream.control.run import Running

UNANSWERED = 3
"""Consecutive pings without a reply before a restart: a single one may be late because control itself was slow."""
INTERVAL_SECONDS = 1.0

log = logging.getLogger("gauss.control")


class Watchdog:
    """Pings the engine, which replies without taking a lock, so that a slow disk or a full topic does not count as a
    hang. The reply says when the driver last reported."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._hang_seconds = running.pipeline.engine.hang_after / 1000
        self._silent_seconds = running.pipeline.spark.stall_after / 1000
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._unanswered = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self) -> None:
        while not self._stopping.wait(INTERVAL_SECONDS):
            if self._running.engine.state != "ready":
                self._unanswered = 0
                continue
            try:
                self.look()
            except OSError as error:  # such as no free file descriptors: not the engine's fault
                log.warning("the engine could not be pinged: %s", error)

    def look(self) -> None:
        """Pings once; restarts the engine after UNANSWERED pings without a reply."""
        engine = self._running.engine
        restarts = engine.restarts
        try:
            heard = float(self._running.client().ping(self._hang_seconds / UNANSWERED)["driver_heard_s"])
        except GaussError as error:
            if self._stopping.is_set() or engine.state != "ready" or engine.restarts != restarts:
                self._unanswered = 0  # its supervisor handles a dead engine
                return
            self._unanswered += 1
            log.warning("the engine did not answer (%d): %s", self._unanswered, error.message)
            if self._unanswered >= UNANSWERED:
                self._unanswered = 0
                engine.restart(f"the engine did not answer for {self._hang_seconds:.0f} s")
            return
        self._unanswered = 0
        self._look_at_driver(heard)

    def _look_at_driver(self, heard: float) -> None:
        """Restarts a driver that does not report. It reports every second, except while it or the engine starts."""
        driver, engine = self._running.driver, self._running.engine
        if driver is None or driver.state != "ready":
            return
        now = time.monotonic()
        if min(heard, now - driver.since, now - engine.since) > self._silent_seconds:
            driver.restart(f"the driver has not reported for {self._silent_seconds:.0f} s")
