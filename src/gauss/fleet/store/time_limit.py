"""Ends transactions that last too long: a server that was cut off never answers, and its client would wait for ever."""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

_LOOK_SECONDS = 0.5


def limit_transactions(engine: sa.Engine, seconds: float) -> None:
    """Shuts down the socket of every connection that a transaction of an engine holds for longer than `seconds`; its
    user gets a connection error."""
    limit = _TimeLimit(seconds)
    sa.event.listen(engine, "checkout", limit.begin)
    sa.event.listen(engine, "checkin", limit.end)
    threading.Thread(target=_watch, args=(weakref.ref(limit), weakref.ref(engine)), name="store", daemon=True).start()
    limit.keep(engine)


class _TimeLimit:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[int, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def keep(self, engine: sa.Engine) -> None:
        """Lives as long as its engine."""
        engine.gauss_time_limit = self  # type: ignore[attr-defined]

    def begin(self, connection: Any, record: Any, _proxy: Any) -> None:
        with self._lock:
            # A descriptor of our own: the connection may close its own, and its number may be used again.
            self._since[id(record)] = (time.monotonic(), os.dup(connection.fileno()))

    def end(self, _connection: Any, record: Any) -> None:
        with self._lock:
            if (found := self._since.pop(id(record), None)) is not None:
                os.close(found[1])

    def check(self) -> None:
        with self._lock:
            late = [one for since, one in self._since.values() if time.monotonic() - since > self._seconds]
            for descriptor in late:
                with socket.socket(fileno=os.dup(descriptor)) as found, suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)


def _watch(limit: weakref.ref[_TimeLimit], engine: weakref.ref[sa.Engine]) -> None:
    while engine() is not None and (found := limit()) is not None:
        found.check()
        del found
        time.sleep(_LOOK_SECONDS)
