"""Objects that are closed together."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections.abc import Iterator
from typing import Any

log = logging.getLogger(__name__)


class Closing:
    """Holds objects with a `close` method that have no other owner."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, made: Any) -> None:
        with self._lock:
            self._held.append(made)

    def close(self) -> int:
        """Closes all objects, newest first, even if one raises. Returns their number."""
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
    """Registers an object to be closed with the current scope, or with the process."""
    if callable(getattr(made, "close", None)):
        _scope.get().add(made)


@contextlib.contextmanager
def scope(held: Closing | None = None) -> Iterator[Closing]:
    """A scope that closes its objects at its end, or when `held` is closed."""
    own = Closing() if held is None else held
    token = _scope.set(own)
    try:
        yield own
    finally:
        _scope.reset(token)
        if held is None:
            own.close()


def close_process() -> int:
    """Closes the objects held outside of any scope. Returns their number."""
    return _process.close()
