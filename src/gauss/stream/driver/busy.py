"""Tells on which of several chains a task has been at work for some time: one that never ends holds up the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gauss.model.errors import GaussError
from gauss.stream.client import EngineClient
from gauss.stream.protocol import Busy

LOOK_S = 1.0


class BusyTeller:
    """Speaks from a thread of its own, since that of the task may not come back."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._at: tuple[str, int, float] | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._tell, name="busy", daemon=True).start()

    @contextmanager
    def at(self, processor: str, generation: int) -> Iterator[None]:
        """The work on one chain."""
        self._at = processor, generation, time.monotonic()
        try:
            yield
        finally:
            self._at = None

    def _tell(self) -> None:
        while not self._ended.wait(LOOK_S):
            if (at := self._at) is not None and (seconds := time.monotonic() - at[2]) > LOOK_S:
                try:
                    self._client.busy(Busy(at[0], at[1], seconds))
                except GaussError:
                    continue  # fenced, or the engine is away: the task will see it

    def close(self) -> None:
        self._ended.set()
