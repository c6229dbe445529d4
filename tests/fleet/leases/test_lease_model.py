"""Leases and claims against a model: workers that acquire, renew, release and commit with what they ever held, in any
order, while time passes and users scale, stop and delete."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.claims import Claim, Intent, Outcome
from gauss.fleet.leases.owner import Owner
from gauss.fleet.leases.slots import SlotLease
from gauss.fleet.store.letters import DeadLetter
from gauss.fleet.store.schema import LEASES
from gauss.model.errors import Fenced, NotFound
from helpers.cases import cases

TTL = 1_000_000
"""Milliseconds; an example takes far less than a step of the clock."""
STEP = TTL // 4
WORKERS = ("w0", "w1", "w2")
PARTITIONS = 2
SLOTS = 3
any_index = st.integers(0, 1_000)


def recent(items: list[Any], index: int) -> Any:
    """One of them, of the last ones as often as of all others."""
    return items[-1 - index % min(4, len(items))] if index % 2 else items[index % len(items)]


@dataclass
class Slot:
    """The model of a row of `leases`."""

    epoch: int = 0
    worker: str | None = None
    left: int = 0
    """Milliseconds; free at 0."""


@dataclass
class Partition:
    """The model of a row of `claims`, and of what the table holds."""

    epoch: int
    owner: Owner
    next_offset: int = 0
    sequence: int = 0
    pending: Intent | None = None
    committed: list[tuple[int, int]] = field(default_factory=list)
    inserted: set[int] = field(default_factory=set)


class LeaseMachine(RuleBasedStateMachine):
    """One pipeline at a time. Everything that a worker ever got stays usable for it, as for one that slept."""

    store: FleetStore

    @initialize(no_leases=st.booleans())
    def begin(self, no_leases: bool) -> None:
        self.no_leases = no_leases
        self.create()

    def create(self) -> None:
        self.id = self.store.pipelines.create("p", "", "me").id
        self.store.pipelines.change_state(self.id, "me", desired="started", replicas=2)
        self.replicas, self.started, self.exists = 2, True, True
        self.slots = {slot: Slot() for slot in range(SLOTS)}
        self.partitions: dict[int, Partition] = {}
        self.leases: list[tuple[str, SlotLease]] = []
        self.claims: list[tuple[Owner, Claim]] = []

    def teardown(self) -> None:
        if self.exists:
            self.store.pipelines.delete(self.id, "me")

    # --- time and users ---

    @rule(steps=st.sampled_from((1, 4)))
    def pass_time(self, steps: int) -> None:
        with self.store.database.transaction() as connection:
            connection.execute(LEASES.update().values(lease_until=LEASES.c.lease_until - steps * STEP))
        for slot in self.slots.values():
            slot.left = max(slot.left - steps * STEP, 0)

    @rule(replicas=st.integers(1, SLOTS), started=st.booleans())
    def want(self, replicas: int, started: bool) -> None:
        if self.exists:
            desired: Any = "started" if started else "stopped"
            self.store.pipelines.change_state(self.id, "me", desired=desired, replicas=replicas)
            self.replicas, self.started = replicas, started

    @rule(chance=st.integers(0, 9))
    def delete(self, chance: int) -> None:
        if not self.exists and chance < 5:
            self.create()
        elif self.exists and self.claims and chance == 9:
            self.store.pipelines.delete(self.id, "me")
            self.exists, self.started = False, False
            self.slots = {slot: Slot() for slot in range(SLOTS)}
            self.partitions = {}

    # --- slots ---

    def is_held(self, worker: str, lease: SlotLease) -> bool:
        slot = self.slots[lease.slot]
        return self.exists and (slot.worker, slot.epoch) == (worker, lease.epoch) and slot.left > 0

    @rule(worker=st.sampled_from(WORKERS), wanted=st.sets(st.integers(0, SLOTS - 1), min_size=1))
    def acquire(self, worker: str, wanted: set[int]) -> None:
        got = self.store.leases.acquire(worker, [(self.id, slot) for slot in wanted], TTL)
        free = [slot for slot in wanted if self.started and slot < self.replicas and self.slots[slot].left == 0]
        assert sorted(lease.slot for lease in got) == sorted(free)
        for lease in got:
            model = self.slots[lease.slot]
            assert lease.epoch == model.epoch + 1
            model.epoch, model.worker, model.left = lease.epoch, worker, TTL
            self.leases.append((worker, lease))

    @rule(index=any_index, worker=st.sampled_from(WORKERS))
    def renew(self, index: int, worker: str) -> None:
        """Also with the leases of others, as a worker whose id collides would."""
        if not self.leases:
            return
        lease = recent(self.leases, index)[1]
        held = self.is_held(worker, lease)
        assert self.store.leases.renew(worker, [lease], TTL) == ({lease} if held else set())
        if held:
            self.slots[lease.slot].left = TTL

    @rule(index=any_index)
    def renew_all(self, index: int) -> None:
        worker = WORKERS[index % len(WORKERS)]
        mine = [lease for holder, lease in self.leases if holder == worker]
        held = {lease for lease in mine if self.is_held(worker, lease)}
        assert self.store.leases.renew(worker, mine, TTL) == held
        for lease in held:
            self.slots[lease.slot].left = TTL

    @rule(index=any_index)
    def release(self, index: int) -> None:
        if not self.leases:
            return
        worker, lease = recent(self.leases, index)
        held = self.is_held(worker, lease)
        assert self.store.leases.release(worker, [lease]) == ({lease} if held else set())
        if held:
            self.slots[lease.slot].left = 0

    # --- partitions ---

    def may_work(self, owner: Owner) -> bool:
        return self.exists and (owner.lease is None or self.is_held(owner.worker_id, owner.lease))

    def owns(self, owner: Owner, claim: Claim) -> bool:
        model = self.partitions.get(claim.partition)
        return model is not None and self.may_work(owner) and (model.epoch, model.owner) == (claim.epoch, owner)

    @rule(index=any_index, partitions=st.sets(st.integers(0, PARTITIONS - 1), min_size=1))
    def take(self, index: int, partitions: set[int]) -> None:
        if self.no_leases:
            owner = Owner(WORKERS[index % len(WORKERS)], self.id)
        elif self.leases:
            worker, lease = recent(self.leases, index)
            owner = Owner(worker, self.id, lease)
        else:
            return
        new = self.store.claims.missing(self.id, "t", "id", sorted(partitions))
        if not self.may_work(owner):
            with pytest.raises((Fenced, NotFound)):
                self.store.claims.take(owner, "t", "id", sorted(partitions), dict.fromkeys(partitions, 0))
            return
        assert new == sorted(partitions - set(self.partitions))
        for claim in self.store.claims.take(owner, "t", "id", sorted(partitions), dict.fromkeys(new, 0)):
            known = self.partitions.get(claim.partition)
            if known is None:
                self.partitions[claim.partition] = known = Partition(0, owner)
            known.epoch, known.owner = known.epoch + 1, owner
            assert (claim.epoch, claim.next_offset, claim.sequence, claim.pending) == (
                known.epoch, known.next_offset, known.sequence, known.pending,
            )  # fmt: skip
            self.claims.append((owner, claim))

    @rule(index=any_index, size=st.integers(1, 9))
    def intend(self, index: int, size: int) -> None:
        if not self.claims:
            return
        owner, claim = recent(self.claims, index)
        intent = Intent(claim.next_offset + size, 1)
        model = self.partitions.get(claim.partition)
        wanted = claim._replace(sequence=claim.sequence + 1, pending=intent)
        fits = self.owns(owner, claim) and model is not None and (
            (model.pending, model.sequence, model.next_offset) == (None, claim.sequence, claim.next_offset)
            or (model.pending, model.sequence, model.next_offset) == (intent, wanted.sequence, claim.next_offset)
        )  # fmt: skip
        if not fits:
            with pytest.raises(Fenced):
                self.store.claims.intend(owner, [(claim, intent)])
            return
        assert self.store.claims.intend(owner, [(claim, intent)]) == [wanted]
        assert model is not None
        model.pending, model.sequence = intent, wanted.sequence
        self.claims.append((owner, wanted))

    @rule(index=any_index)
    def insert(self, index: int) -> None:
        """Whoever knows of an intent may insert its range at any time, since ClickHouse checks no epochs. A range that
        was inserted before changes nothing: its token, and the read-back, see to that."""
        known = [claim for _, claim in self.claims if claim.pending is not None and claim.partition in self.partitions]
        if known:
            claim = recent(known, index)
            assert claim.pending is not None
            self.partitions[claim.partition].inserted.update(range(claim.next_offset, claim.pending.stop))

    @rule(index=any_index, part=st.integers(1, 9))
    def advance(self, index: int, part: int) -> None:
        """Behind the whole range, or the first part of it."""
        known = [(owner, claim) for owner, claim in self.claims if claim.pending is not None]
        if not known:
            return
        owner, claim = recent(known, index)
        assert claim.pending is not None
        stop = min(claim.next_offset + part, claim.pending.stop)
        model = self.partitions.get(claim.partition)
        if model is not None and not model.inserted.issuperset(range(claim.next_offset, stop)):
            return  # an owner advances only behind rows that it has seen in the table
        left = claim.pending if stop < claim.pending.stop else None
        moved = claim._replace(next_offset=stop, pending=left)
        letter = DeadLetter(claim.next_offset, "map", "type", "c", "", b"x", 1)
        outcome = Outcome(claim, 1, 1, [letter], stop=stop)
        found = None if model is None else (model.pending, model.sequence, model.next_offset)
        is_pending = found == (claim.pending, claim.sequence, claim.next_offset)
        is_repeated = found == (left, moved.sequence, moved.next_offset)
        if not (self.owns(owner, claim) and (is_pending or is_repeated)):
            with pytest.raises((Fenced, NotFound)):
                self.store.claims.advance(owner, [outcome])
            return
        assert self.store.claims.advance(owner, [outcome]) == [moved]
        assert model is not None
        if is_pending:
            model.next_offset, model.pending = moved.next_offset, left
            model.committed.append((claim.next_offset, stop))
        self.claims.append((owner, moved))

    @rule(index=any_index)
    def give_back(self, index: int) -> None:
        if not self.claims:
            return
        owner, claim = recent(self.claims, index)
        self.store.claims.release(owner, [claim])
        model = self.partitions.get(claim.partition)
        if model is not None and (model.epoch, model.owner) == (claim.epoch, owner):
            model.owner = Owner("", self.id)

    # --- what always holds ---

    @invariant()
    def every_record_is_inserted_once(self) -> None:
        for model in getattr(self, "partitions", {}).values():
            ends = [0, *(stop for _, stop in model.committed)]
            assert [start for start, _ in model.committed] == ends[:-1], "ranges follow each other"
            committed = set(range(ends[-1]))
            known = set(range(model.next_offset if model.pending is None else model.pending.stop))
            assert committed <= model.inserted <= known, "a record was inserted that no owner counts"

    @invariant()
    def the_store_equals_the_model(self) -> None:
        if not getattr(self, "exists", False):
            return
        live = {(each.slot, each.worker_id, each.epoch) for each in self.store.leases.assignments(self.id)}
        assert live == {(slot, each.worker, each.epoch) for slot, each in self.slots.items() if each.left > 0}
        shown = {each.partition: each for each in self.store.claims.list(self.id)}
        assert sorted(shown) == sorted(self.partitions)
        for number, model in self.partitions.items():
            found, count = shown[number], len(model.committed)
            assert (found.epoch, found.next_offset) == (model.epoch, model.next_offset)
            assert (found.rows, found.batches, found.dead_letters) == (count, count, count)


def run(store: FleetStore, examples: int, steps: int) -> None:
    machine = type("Machine", (LeaseMachine,), {"store": store, "__test__": False})
    found = settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=found)


@pytest.fixture
def unsynced(key_path: Path) -> Iterator[FleetStore]:
    """A store in SQLite that does not wait for the disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        store = FleetStore(Path(folder) / "fleet.db", key_path)
        yield store
        store.close()


def test_leases_and_claims_in_sqlite_equal_the_model(unsynced: FleetStore) -> None:
    run(unsynced, cases(200), 50)


@pytest.mark.system
def test_leases_and_claims_in_postgres_equal_the_model(postgres_url: str, key_path: Path) -> None:
    store = FleetStore(postgres_url, key_path)
    run(store, cases(15), 40)
    store.close()
