"""Removes what a store keeps for a time only, while a server of the fleet is up."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Self

from gauss.fleet.fleet_store import FleetStore
from gauss.model.errors import GaussError

INTERVAL_SECONDS = 600.0

log = logging.getLogger("gauss.fleet")


class Retention:
    """A thread that removes old dead letters. Several servers may do so at once."""

    def __init__(self, store: FleetStore) -> None:
        self._store = store
        self._stop = Event()
        self._thread = Thread(target=self._run, name="retention", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                if gone := self._store.letters.expire():
                    log.info("%d old dead letters were removed", gone)
            except GaussError as error:
                log.warning("old dead letters are not removed: %s", error.message)
            if self._stop.wait(INTERVAL_SECONDS):
                return
