"""The keeper: renews what makes progress, reports what is lost, and stops work before a slot may be taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases import keeper as module
from gauss.fleet.leases.keeper import HeldLease, LeaseKeeper
from gauss.fleet.leases.slots import SlotLease
from gauss.fleet.store.schema import LEASES
from gauss.model.errors import Unavailable
from helpers.waiting import wait_until

TTL_MS = 900_000


class Clock:
    """The local clock, moved by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "clock", made)
    return made


@pytest.fixture
def slots(store: FleetStore) -> list[tuple[str, int]]:
    pipeline = store.pipelines.create("orders", "", who="me")
    store.pipelines.change_state(pipeline.id, "me", desired="started", replicas=3)
    return [(pipeline.id, slot) for slot in range(3)]


@pytest.fixture
def keeper(store: FleetStore) -> Iterator[LeaseKeeper]:
    made = LeaseKeeper(store.leases, "w", TTL_MS)
    yield made
    made.close()


def expire(store: FleetStore) -> None:
    with store.database.transaction() as connection:
        connection.execute(LEASES.update().values(lease_until=LEASES.c.lease_until - TTL_MS))


def test_work_stops_at_two_thirds_of_the_ttl_unless_the_lease_is_renewed(
    keeper: LeaseKeeper, slots: list[tuple[str, int]], clock: Clock
) -> None:
    (held,) = keeper.acquire(slots[:1])
    clock.now += 599
    assert held.is_usable
    keeper.renew()
    clock.now += 599
    assert held.is_usable
    clock.now += 2
    assert not held.is_usable
    assert not held.is_expired
    clock.now += TTL_MS / 1000 / 3
    assert held.is_expired
    assert not held.is_lost, "nobody has said so"
    keeper.renew()
    assert held.is_usable
    assert not held.is_expired


def test_the_deadline_counts_from_before_the_renewal_was_sent(clock: Clock) -> None:
    class SlowLeases:
        def acquire(self, _worker: str, _slots: Any, _ttl: int) -> list[SlotLease]:
            clock.now += 100
            return [SlotLease("p", 0, 1)]

        def renew(self, _worker: str, leases: list[SlotLease], _ttl: int) -> set[SlotLease]:
            clock.now += 200
            return set(leases)

    slow: Any = SlowLeases()
    keeper = LeaseKeeper(slow, "w", TTL_MS)
    (held,) = keeper.acquire([("p", 0)])
    assert held.stop_at == 1_000 + 600
    keeper.renew()
    assert held.stop_at == 1_100 + 600


def test_a_lease_that_expired_is_lost_though_nobody_took_it(
    keeper: LeaseKeeper, slots: list[tuple[str, int]], store: FleetStore
) -> None:
    held = keeper.acquire(slots)
    expire(store)
    keeper.renew()
    assert all(each.is_lost and not each.is_usable for each in held)
    assert keeper.held() == []


def test_a_lease_without_progress_is_not_renewed(
    keeper: LeaseKeeper, slots: list[tuple[str, int]], store: FleetStore, clock: Clock
) -> None:
    hung, busy = keeper.acquire(slots[:2])
    clock.now += 2_701
    busy.beat()
    before = {each.slot: each.lease_until for each in store.leases.assignments()}
    keeper.renew()
    after = {each.slot: each.lease_until for each in store.leases.assignments()}
    assert after[hung.lease.slot] == before[hung.lease.slot]
    assert after[busy.lease.slot] > before[busy.lease.slot]


def test_a_released_slot_is_free_at_once_and_a_late_release_changes_nothing(
    keeper: LeaseKeeper, slots: list[tuple[str, int]], store: FleetStore
) -> None:
    (held,) = keeper.acquire(slots[:1])
    keeper.release([held.lease])
    assert held.is_lost
    (taken,) = store.leases.acquire("other", slots[:1], TTL_MS)
    assert taken.epoch == held.lease.epoch + 1
    keeper.release([held.lease])
    assert [each.worker_id for each in store.leases.assignments()] == ["other"]


def test_renewals_go_on_after_the_store_was_away(clock: Clock) -> None:
    class AwayLeases:
        calls = 0

        def acquire(self, _worker: str, slots: list[tuple[str, int]], _ttl: int) -> list[SlotLease]:
            return [SlotLease(*slot, 1) for slot in slots]

        def renew(self, _worker: str, leases: list[SlotLease], _ttl: int) -> set[SlotLease]:
            self.calls += 1
            if self.calls <= 3:
                raise Unavailable("away")
            if self.calls == 4:
                raise RuntimeError("a defect")
            return set(leases)

    away: Any = AwayLeases()
    keeper = LeaseKeeper(away, "w", 300)
    (held,) = keeper.acquire([("p", 0)])
    first = held.stop_at
    clock.now += 0.1
    keeper.start()
    wait_until(lambda: held.stop_at > first)
    assert not held.is_lost
    keeper.close()


def test_a_held_lease_ignores_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldLease(SlotLease("p", 0, 1), module.clock(), 60.0)
    for skew in (-3600.0, 3600.0):
        monkeypatch.setattr("time.time", lambda skew=skew: skew)
        assert held.is_usable
