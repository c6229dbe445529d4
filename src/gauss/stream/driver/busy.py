"""On which of several chains a task is at work: one that never ends, or takes most of the time, holds up the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gauss.model.errors import GaussError
from gauss.stream.client import EngineClient
from gauss.stream.protocol import Busy

LOOK_S = 1.0
WINDOW_S = 5.0
MOST_SHARE = 0.5
FAR = 4
"""A chain is slow that takes more than this share of a window, and so many times what the others take on average."""


class BusyTeller:
    """Speaks from a thread of its own, since that of the task may not come back."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._at: tuple[str, int, float] | None = None
        self._spent: dict[str, float] = {}
        self._since = time.monotonic()
        self._ended = threading.Event()
        threading.Thread(target=self._tell, name="busy", daemon=True).start()

    @contextmanager
    def at(self, processor: str, generation: int) -> Iterator[None]:
        """The work on one chain."""
        began = time.monotonic()
        self._at = processor, generation, began
        try:
            yield
        finally:
            self._at = None
            self._spent[processor] = self._spent.get(processor, 0.0) + time.monotonic() - began

    def slow(self) -> tuple[str, float] | None:
        """At the end of a window: the chain that holds up the others, if there is one, and its share of the time."""
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
                    continue  # fenced, or the engine is away: the task will see it

    def close(self) -> None:
        self._ended.set()
