"""The driver's last report about its queries, and commands that wait for the driver."""

from __future__ import annotations

import threading
import time

from gauss.clients.engine.driver_messages import DriverCommand, DriverSync, DriverSynced, QueryStatus

SILENT_S = 15.0


class DriverBoard:
    """Reports of the driver, which syncs about every second, and the commands for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, QueryStatus] = {}
        self._commands: list[DriverCommand] = []
        self._heard = 0.0
        self._made = time.monotonic()

    def sync(self, sync: DriverSync) -> DriverSynced:
        with self._lock:
            self._heard = time.monotonic()
            self._queries = {query.processor: query for query in sync.queries}
            commands, self._commands = self._commands, []
            return DriverSynced(commands)

    def tell(self, processor: str, action: str) -> None:
        """Queues a command for the driver's next sync."""
        with self._lock:
            self._commands.append(DriverCommand(processor, action))

    def query(self, processor: str) -> QueryStatus:
        """The newest status of a query; `starting` until the driver reports it."""
        with self._lock:
            return self._queries.get(processor) or QueryStatus(processor, "starting")

    def silent_s(self) -> float:
        """Seconds since the driver's last report, or since the start of the engine."""
        return time.monotonic() - (self._heard or self._made)

    def silence(self) -> float:
        """Seconds since the driver's last report; 0 before the first."""
        with self._lock:
            return time.monotonic() - self._heard if self._heard else 0.0
