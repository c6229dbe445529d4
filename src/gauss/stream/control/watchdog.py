"""Restarts a child that lives but says nothing: stopped, or stuck with its interpreter's lock held."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from gauss.model.errors import GaussError

if TYPE_CHECKING:
    from gauss.stream.control.run import Running

UNANSWERED = 3
"""Pings in a row, so that a control that was itself held up does not blame the engine for it."""
INTERVAL_SECONDS = 1.0

log = logging.getLogger("gauss.control")


class Watchdog:
    """Pings the engine. The engine takes no lock to answer, so a slow disk or a full topic is no hang; it also tells
    when it last heard of the driver."""

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
            except OSError as error:  # no descriptors: that says nothing about the engine
                log.warning("the engine was not asked whether it lives: %s", error)

    def look(self) -> None:
        """One ping; the last of several without an answer ends the engine."""
        engine = self._running.engine
        restarts = engine.restarts
        try:
            heard = float(self._running.client().ping(self._hang_seconds / UNANSWERED)["driver_heard_s"])
        except GaussError as error:
            if self._stopping.is_set() or engine.state != "ready" or engine.restarts != restarts:
                self._unanswered = 0  # it is dead, which its watcher sees by itself
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
        """The driver speaks every second; it may be silent while it, or the engine, comes up."""
        driver, engine = self._running.driver, self._running.engine
        if driver is None or driver.state != "ready":
            return
        now = time.monotonic()
        if min(heard, now - driver.since, now - engine.since) > self._silent_seconds:
            driver.restart(f"the driver was not heard of for {self._silent_seconds:.0f} s")
