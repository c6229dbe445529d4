"""Workers that are or were up, as they report themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

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
    instances: dict[str, tuple[str, str]]
    """Of a worker without leases: by pipeline, the state of its instance and the reason."""
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
        instances: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    ) -> None:
        """Notes that a worker is up, and what its instances do that have no slots."""
        told = json.dumps(dict(instances))
        row = {"host": host, "pid": pid, "mode": mode, "version": version, "ttl_ms": ttl_ms}
        row |= {"max_slots": max_slots, "max_replicas": max_replicas}
        with self._database.transaction() as connection:
            where = WORKERS.c.id == worker_id
            if not connection.execute(WORKERS.update().where(where).values(seen_at=now_ms(), instances=told)).rowcount:
                times = {"started_at": now_ms(), "seen_at": now_ms()}
                connection.execute(WORKERS.insert().values(id=worker_id, instances=told, **row, **times))
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
            return [_worker(row) for row in connection.execute(query)]


def _worker(row: Any) -> Worker:
    told = {pipeline_id: (state, reason) for pipeline_id, (state, reason) in json.loads(row.instances).items()}
    return Worker(**{**row._asdict(), "instances": told})
