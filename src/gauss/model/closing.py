"""Things that are closed together, each once."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections.abc import Iterator
from typing import Any

log = logging.getLogger(__name__)


class Closing:
    """Objects that have a `close` and no owner that would call it."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, made: Any) -> None:
        with self._lock:
            self._held.append(made)

    def close(self) -> int:
        """Closes each once, the newest first, whatever one of them raises; gives how many there were."""
        with self._lock:
            held, self._held = self._held, []
        for made in reversed(held):
            try:
                made.close()
            except Exception:
                log.exception("%s failed to close", type(made).__name__)
        return len(held)


_process = Closing()
_scope: contextvars.ContextVar[Closing] = contextvars.ContextVar("scope", default=_process)


def hold(made: Any) -> None:
    """Lets an object be closed with the scope that it was made in, else with the process."""
    if callable(getattr(made, "close", None)):
        _scope.get().add(made)


@contextlib.contextmanager
def scope(held: Closing | None = None) -> Iterator[Closing]:
    """What is held inside is closed at its end; with `held`, whenever that is closed."""
    own = Closing() if held is None else held
    token = _scope.set(own)
    try:
        yield own
    finally:
        _scope.reset(token)
        if held is None:
            own.close()


def close_process() -> int:
    """Closes what was held outside of any scope; gives how many there were."""
    return _process.close()
