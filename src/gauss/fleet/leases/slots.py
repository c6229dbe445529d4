"""Leases of slots: acquired, renewed and released by the clock of the database, and fenced by an epoch.

Every slot has a row from the time its pipeline gets so many replicas. It is free when `lease_until` is past.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store import takeovers
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import FILES, LEASES, PIPELINES, STATE

MOST_ROWS = 1_000
"""Slots per statement; databases limit the number of parameters."""


class SlotLease(NamedTuple):
    """A slot as one holder got it; the next holder has a larger epoch."""

    pipeline_id: str
    slot: int
    epoch: int


class Vacancy(NamedTuple):
    """A slot that is wanted and free."""

    pipeline_id: str
    slot: int
    free_ms: int
    """For how long."""


class Wanted(NamedTuple):
    """A started pipeline."""

    replicas: int
    version: int
    is_file: bool = False


class Assignment(NamedTuple):
    """A live lease, as it is shown."""

    pipeline_id: str
    pipeline: str
    slot: int
    worker_id: str
    lease_until: int
    epoch: int
    acquired_at: int
    state: str
    reason: str


class SlotLeases:
    """The leases of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def wanted(self) -> dict[str, Wanted]:
        """The started pipelines by id."""
        is_file = sa.exists().where(FILES.c.pipeline_id == PIPELINES.c.id).label("is_file")
        query = sa.select(STATE.c.pipeline_id, STATE.c.replicas, PIPELINES.c.version, is_file)
        query = query.join(PIPELINES, PIPELINES.c.id == STATE.c.pipeline_id).where(STATE.c.desired == "started")
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        return {row.pipeline_id: Wanted(row.replicas, row.version, bool(row.is_file)) for row in rows}

    def vacancies(self) -> list[Vacancy]:
        """All slots that could be acquired now."""
        query = sa.select(
            LEASES.c.pipeline_id, LEASES.c.slot, LEASES.c.lease_until, STATE.c.updated_at, now_ms().label("now")
        )
        query = query.join(STATE, STATE.c.pipeline_id == LEASES.c.pipeline_id).where(_FREE, _WANTED)
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(LEASES.c.pipeline_id, LEASES.c.slot)).all()
        return [
            Vacancy(row.pipeline_id, row.slot, max(row.now - max(row.lease_until, row.updated_at), 0)) for row in rows
        ]

    def acquire(self, worker_id: str, slots: Sequence[tuple[str, int]], ttl_ms: int) -> list[SlotLease]:
        """Takes those of the slots that are still free and wanted. Other workers that try meanwhile get the rest."""
        taken = []
        for some in _parts(slots):
            free = (
                sa.select(*_LEASE)
                .join(STATE, STATE.c.pipeline_id == LEASES.c.pipeline_id)
                .where(_SLOT.in_(some), _FREE, _WANTED)
                .order_by(LEASES.c.pipeline_id, LEASES.c.slot)
                .with_for_update(of=LEASES, skip_locked=True)
            )
            with self._database.transaction() as connection:
                before = [SlotLease(*row) for row in connection.execute(free)]
                if not (locked := [lease[:2] for lease in before]):
                    continue
                takeovers.end(connection, before)
                update = LEASES.update().where(_SLOT.in_(locked), _FREE).values(
                    worker_id=worker_id,
                    lease_until=now_ms() + ttl_ms,
                    epoch=LEASES.c.epoch + 1,
                    acquired_at=now_ms(),
                    state="starting",
                    reason="",
                )  # fmt: skip
                found = [SlotLease(*row) for row in connection.execute(update.returning(*_LEASE))]
                takeovers.begin(connection, worker_id, found)
                taken += found
        return taken

    def renew(self, worker_id: str, leases: Iterable[SlotLease], ttl_ms: int) -> set[SlotLease]:
        """Extends leases and returns those that are still held. An expired lease is lost, even if nobody has taken the
        slot, because its holder has stopped meanwhile."""
        held: set[SlotLease] = set()
        for some in _parts(sorted(leases)):
            mine = (_LEASE_KEY.in_(some), LEASES.c.worker_id == worker_id, LEASES.c.lease_until > now_ms())
            # In one order, so that no two transactions wait for each other.
            rows = sa.select(LEASES.c.slot).where(*mine).order_by(LEASES.c.pipeline_id, LEASES.c.slot).with_for_update()
            update = LEASES.update().where(*mine).values(lease_until=now_ms() + ttl_ms).returning(*_LEASE)
            with self._database.transaction() as connection:
                connection.execute(rows).all()
                held.update(SlotLease(*row) for row in connection.execute(update))
        return held

    def release(self, worker_id: str, leases: Iterable[SlotLease]) -> set[SlotLease]:
        """Frees slots at once and returns those that were held. A lease that another worker has taken since is not
        touched."""
        freed: set[SlotLease] = set()
        for some in _parts(sorted(leases)):
            mine = (_LEASE_KEY.in_(some), LEASES.c.worker_id == worker_id, LEASES.c.lease_until > now_ms())
            values = {"worker_id": None, "lease_until": now_ms(), "state": "", "reason": ""}
            with self._database.transaction() as connection:
                update = LEASES.update().where(*mine).values(**values).returning(*_LEASE)
                gone = [SlotLease(*row) for row in connection.execute(update)]
                takeovers.end(connection, gone)
                freed.update(gone)
        return freed

    def report(self, worker_id: str, lease: SlotLease, state: str, reason: str) -> bool:
        """Sets the state that pages show of a slot, and returns whether it is still held."""
        mine = (_LEASE_KEY.in_([lease]), LEASES.c.worker_id == worker_id, LEASES.c.lease_until > now_ms())
        with self._database.transaction() as connection:
            update = LEASES.update().where(*mine).values(state=state, reason=reason)
            return bool(connection.execute(update).rowcount)

    def assignments(self, pipeline_id: str | None = None) -> list[Assignment]:
        """The live leases, of one pipeline or of all."""
        columns = (
            LEASES.c.pipeline_id, PIPELINES.c.name, LEASES.c.slot, LEASES.c.worker_id, LEASES.c.lease_until,
            LEASES.c.epoch, LEASES.c.acquired_at, LEASES.c.state, LEASES.c.reason,
        )  # fmt: skip
        query = sa.select(*columns).join(PIPELINES, PIPELINES.c.id == LEASES.c.pipeline_id)
        query = query.where(LEASES.c.lease_until > now_ms()).order_by(
            PIPELINES.c.name, LEASES.c.pipeline_id, LEASES.c.slot
        )
        if pipeline_id is not None:
            query = query.where(LEASES.c.pipeline_id == pipeline_id)
        with self._database.transaction() as connection:
            return [Assignment(*row) for row in connection.execute(query)]

    def loads(self) -> dict[str, int]:
        """The number of slots that each worker holds."""
        query = sa.select(LEASES.c.worker_id, sa.func.count()).where(LEASES.c.lease_until > now_ms())
        with self._database.transaction() as connection:
            rows = connection.execute(query.group_by(LEASES.c.worker_id)).all()
        return {str(worker): int(count) for worker, count in rows}

    def acquisitions(self) -> dict[str, int]:
        """By pipeline, how often its slots were acquired."""
        query = sa.select(LEASES.c.pipeline_id, sa.func.sum(LEASES.c.epoch)).group_by(LEASES.c.pipeline_id)
        with self._database.transaction() as connection:
            return {row[0]: int(row[1]) for row in connection.execute(query)}

    def replicas_held(self) -> dict[str, Counter[str]]:
        """By worker, the number of slots that it holds of each pipeline."""
        columns = (LEASES.c.worker_id, LEASES.c.pipeline_id)
        query = sa.select(*columns, sa.func.count()).where(LEASES.c.lease_until > now_ms()).group_by(*columns)
        found: dict[str, Counter[str]] = {}
        with self._database.transaction() as connection:
            for worker, pipeline_id, count in connection.execute(query):
                found.setdefault(str(worker), Counter())[pipeline_id] = int(count)
        return found


_SLOT = sa.tuple_(LEASES.c.pipeline_id, LEASES.c.slot)
_LEASE = (LEASES.c.pipeline_id, LEASES.c.slot, LEASES.c.epoch)
_LEASE_KEY = sa.tuple_(*_LEASE)
_FREE = LEASES.c.lease_until <= now_ms()
_WANTED = sa.and_(STATE.c.desired == "started", LEASES.c.slot < STATE.c.replicas)


T = TypeVar("T")


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), MOST_ROWS):
        yield items[first : first + MOST_ROWS]
