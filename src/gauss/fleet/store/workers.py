"""Workers that are or were up, as they report themselves."""

from __future__ import annotations

from typing import Literal, NamedTuple

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import WORKERS

Mode = Literal["leases", "no-leases"]
FORGET_MS = 24 * 3600 * 1000
"""Workers that have been silent for so long are removed."""


class Worker(NamedTuple):
    id: str
    host: str
    pid: int
    mode: Mode
    version: str
    ttl_ms: int
    started_at: int
    seen_at: int
    max_slots: int | None
    """Slots that it takes at most; None for any number."""
    max_replicas: int | None
    """Slots of one pipeline that it takes at most."""
    live: bool
    """Whether it was seen within its lease TTL."""


class Workers:
    """The workers of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def seen(
        self,
        worker_id: str,
        *,
        host: str,
        pid: int,
        mode: Mode,
        version: str,
        ttl_ms: int,
        max_slots: int | None = None,
        max_replicas: int | None = None,
    ) -> None:
        """Notes that a worker is up."""
        row = {"host": host, "pid": pid, "mode": mode, "version": version, "ttl_ms": ttl_ms}
        row |= {"max_slots": max_slots, "max_replicas": max_replicas}
        with self._database.transaction() as connection:
            where = WORKERS.c.id == worker_id
            if not connection.execute(WORKERS.update().where(where).values(seen_at=now_ms())).rowcount:
                times = {"started_at": now_ms(), "seen_at": now_ms()}
                connection.execute(WORKERS.insert().values(id=worker_id, **row, **times))
                connection.execute(WORKERS.delete().where(WORKERS.c.seen_at < now_ms() - FORGET_MS))

    def gone(self, worker_id: str) -> None:
        """Removes a worker that has stopped in good order."""
        with self._database.transaction() as connection:
            connection.execute(WORKERS.delete().where(WORKERS.c.id == worker_id))

    def list(self) -> list[Worker]:
        """All workers, live ones first."""
        live = WORKERS.c.seen_at + WORKERS.c.ttl_ms > now_ms()
        query = sa.select(WORKERS, live.label("live")).order_by(sa.desc("live"), WORKERS.c.started_at, WORKERS.c.id)
        with self._database.transaction() as connection:
            return [Worker(*row) for row in connection.execute(query)]
