"""Detection of a chain that hangs or takes most of the time, and so blocks the other chains of its task."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.task_messages import Busy
from gauss.model.errors import GaussError

LOOK_S = 1.0
WINDOW_S = 5.0
MOST_SHARE = 0.5
FAR = 4
"""A chain is slow if it takes more than MOST_SHARE of a window and more than FAR times the average of the others."""


class BusyReporter:
    """Reports the current chain to the engine from its own thread, because the task's thread may hang."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._at: tuple[str, int, float] | None = None
        self._spent: dict[str, float] = {}
        self._since = time.monotonic()
        self._ended = threading.Event()
        threading.Thread(target=self._tell, name="busy", daemon=True).start()

    @contextmanager
    def at(self, processor: str, generation: int) -> Iterator[None]:
        """Measures the work on one chain."""
        began = time.monotonic()
        self._at = processor, generation, began
        try:
            yield
        finally:
            self._at = None
            self._spent[processor] = self._spent.get(processor, 0.0) + time.monotonic() - began

    def slow(self) -> tuple[str, float] | None:
        """At the end of a window: the slow chain and its share of the time; None if there is none."""
        lasted = time.monotonic() - self._since
        if lasted < WINDOW_S:
            return None
        spent, self._spent, self._since = self._spent, {}, time.monotonic()
        if len(spent) < 2:
            return None
        most = max(spent, key=lambda name: spent[name])
        others = (sum(spent.values()) - spent[most]) / (len(spent) - 1)
        is_slow = spent[most] > max(MOST_SHARE * lasted, FAR * others)
        return (most, spent[most] / lasted) if is_slow else None

    def _tell(self) -> None:
        while not self._ended.wait(LOOK_S):
            if (at := self._at) is not None and (seconds := time.monotonic() - at[2]) > LOOK_S:
                try:
                    self._client.busy(Busy(at[0], at[1], seconds))
                except GaussError:
                    continue  # fenced, or the engine is unavailable: the task handles it

    def close(self) -> None:
        self._ended.set()
