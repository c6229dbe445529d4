"""Who held which slot, and when: a row for each epoch of a slot, kept for a day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import LEASES, TAKEOVERS

KEPT_MS = 86_400_000
MOST_SHOWN = 2_000

Epoch = tuple[str, int, int]
"""The pipeline, the slot and the epoch of a lease."""


class Takeover(NamedTuple):
    """A slot in the hands of one worker."""

    slot: int
    epoch: int
    worker_id: str
    began_at: int
    ended_at: int | None
    """When it was released, or its lease ended; None if it is held."""


class Takeovers:
    """The takeovers of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, pipeline_id: str, since_ms: int) -> list[Takeover]:
        """Those of a pipeline that were not over so many milliseconds ago, by slot and epoch."""
        columns = TAKEOVERS.c
        lease = sa.and_(
            LEASES.c.pipeline_id == columns.pipeline_id, LEASES.c.slot == columns.slot, LEASES.c.epoch == columns.epoch
        )
        expired = sa.case((LEASES.c.lease_until <= now_ms(), LEASES.c.lease_until))
        ended = sa.func.coalesce(columns.ended_at, expired)
        query = (
            sa.select(columns.slot, columns.epoch, columns.worker_id, columns.began_at, ended)
            .select_from(TAKEOVERS.outerjoin(LEASES, lease))
            .where(columns.pipeline_id == pipeline_id, sa.or_(ended.is_(None), ended > now_ms() - since_ms))
            .order_by(columns.began_at.desc())
            .limit(MOST_SHOWN)
        )
        with self._database.transaction() as connection:
            found = [Takeover(*row) for row in connection.execute(query)]
        return sorted(found)


def begin(connection: sa.Connection, worker_id: str, leases: Sequence[Epoch]) -> None:
    """Notes that slots were taken, and forgets old takeovers of these slots."""
    slot = sa.tuple_(TAKEOVERS.c.pipeline_id, TAKEOVERS.c.slot)
    taken = slot.in_([lease[:2] for lease in leases])
    connection.execute(TAKEOVERS.delete().where(taken, TAKEOVERS.c.ended_at < now_ms() - KEPT_MS))
    rows = [{"pipeline_id": lease[0], "slot": lease[1], "epoch": lease[2], "worker_id": worker_id} for lease in leases]
    connection.execute(TAKEOVERS.insert().values(began_at=now_ms()), rows)


def end(connection: sa.Connection, leases: Sequence[Epoch]) -> None:
    """Notes when leases ended that were released, or that others are about to take."""
    key = (TAKEOVERS.c.pipeline_id, TAKEOVERS.c.slot, TAKEOVERS.c.epoch)
    lease = (LEASES.c.pipeline_id == TAKEOVERS.c.pipeline_id, LEASES.c.slot == TAKEOVERS.c.slot)
    until = sa.select(LEASES.c.lease_until).where(*lease).scalar_subquery()
    ended = TAKEOVERS.update().where(sa.tuple_(*key).in_(list(leases)), TAKEOVERS.c.ended_at.is_(None))
    connection.execute(ended.values(ended_at=until))
