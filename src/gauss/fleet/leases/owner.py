"""Who owns partitions: an instance of a pipeline on a worker."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from gauss.fleet.leases.slots import SlotLease
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import LEASES


class Owner(NamedTuple):
    """An instance of a pipeline. Without leases it has no slot, and only the epochs of its partitions fence it."""

    worker_id: str
    pipeline_id: str
    lease: SlotLease | None = None

    @property
    def slot(self) -> int | None:
        return None if self.lease is None else self.lease.slot

    def holds_lease(self) -> sa.ColumnElement[bool]:
        """Whether its lease is live, as part of the statement that it guards."""
        if self.lease is None:
            return sa.true()
        return sa.exists().where(
            LEASES.c.pipeline_id == self.pipeline_id,
            LEASES.c.slot == self.lease.slot,
            LEASES.c.worker_id == self.worker_id,
            LEASES.c.epoch == self.lease.epoch,
            LEASES.c.lease_until > now_ms(),
        )
