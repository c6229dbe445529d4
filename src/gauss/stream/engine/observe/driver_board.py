"""What the driver last said of its queries, and what it is to be told."""

from __future__ import annotations

import threading
import time

from gauss.clients.engine.driver_messages import DriverCommand, DriverSync, DriverSynced, QueryStatus

SILENT_S = 15.0


class DriverBoard:
    """The driver syncs every second or so; commands wait here for it."""

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
        """The newest status; `starting` while the driver has not named the query."""
        with self._lock:
            return self._queries.get(processor) or QueryStatus(processor, "starting")

    def silent_s(self) -> float:
        """Seconds since the driver's last word, or since the engine is there."""
        return time.monotonic() - (self._heard or self._made)

    def silence(self) -> float:
        """Seconds since the driver was last heard of; 0 before its first word."""
        with self._lock:
            return time.monotonic() - self._heard if self._heard else 0.0
