"""Work that a thread of the engine repeats."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from gauss.model.errors import GaussError

log = logging.getLogger("gauss.dbstates")


class Repeating:
    """A thread that calls a function until it is stopped. An error is logged, and the function is called again."""

    def __init__(self, name: str, pause_seconds: float, call: Callable[[], object]) -> None:
        self._name, self._pause_seconds, self._call = name, pause_seconds, call
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the call that is under way has returned."""
        self.stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self.stopped.wait(self._pause_seconds):
            try:
                self._call()
            except GaussError as error:
                log.warning("%s: %s", self._name, error.message)
            except Exception:  # the thread must not end
                log.exception(self._name)
