"""Shares of slots: equal within limits; moving slots comes to an end, whatever holds at the start."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.fleet.leases.balance import Peer, surplus, targets
from gauss.fleet.leases.placement import Limits, choose
from gauss.fleet.leases.slots import SlotLease, Vacancy
from helpers.cases import cases

Slot = tuple[str, int]
ROUNDS = 120
QUIET = 12
"""Rounds without a move after which nothing moves any more."""
AVOID, SPREAD = 4, 4
limits = st.builds(Limits, st.none() | st.integers(1, 6), st.none() | st.integers(1, 3))


@dataclass
class Fleet:
    """Workers that take turns in any order, and take and give slots as `FleetWorker` does."""

    replicas: dict[str, int]
    limits: dict[str, Limits]
    owner: dict[Slot, str] = field(default_factory=dict)
    free_for: Counter[Slot] = field(default_factory=Counter)
    given: dict[tuple[str, Slot], int] = field(default_factory=dict)
    round: int = 0
    moves: int = 0

    def peers(self) -> list[Peer]:
        return [Peer.of(each, found, list(self.replicas.values())) for each, found in self.limits.items()]

    def held(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for (pipeline, _), worker in self.owner.items():
            found.setdefault(worker, Counter())[pipeline] += 1
        return found

    def mine(self, worker: str) -> list[SlotLease]:
        return [SlotLease(*slot, 1) for slot, holder in sorted(self.owner.items()) if holder == worker]

    def step(self, order: list[str]) -> None:
        self.round += 1
        slots = [(name, number) for name, count in self.replicas.items() for number in range(count)]
        self.free_for.update(slot for slot in slots if slot not in self.owner)
        for worker in order:
            self.reconcile(worker, slots)

    def reconcile(self, worker: str, slots: list[Slot]) -> None:
        loads = Counter(self.owner.values())
        share = targets(len(slots), self.peers(), loads)
        mine = self.mine(worker)
        if len(mine) > share[worker] or self.round % SPREAD == 0:
            for lease in surplus(worker, mine, self.peers(), self.held(), share):
                slot = (lease.pipeline_id, lease.slot)
                del self.owner[slot]
                self.free_for[slot] = 0
                self.given[(worker, slot)] = self.round
                self.moves += 1
        vacancies = [Vacancy(*slot, self.free_for[slot] * 1_000) for slot in slots if slot not in self.owner]
        avoid = [slot for (giver, slot), at in self.given.items() if giver == worker and at > self.round - AVOID]
        chosen = choose(
            vacancies,
            self.mine(worker),
            fair_share=share[worker],
            patience_ms=1_000,
            limits=self.limits[worker],
            avoid=avoid,
        )
        self.owner.update(dict.fromkeys(chosen, worker))

    def settle(self, seed: int) -> None:
        """Runs until nothing has moved for long; fails if that does not happen."""
        random.seed(seed)
        quiet = 0
        while quiet < QUIET:
            assert self.round < ROUNDS, f"slots move for ever: {self.held()}"
            before = (self.moves, dict(self.owner))
            self.step(random.sample(sorted(self.limits), len(self.limits)))
            quiet = quiet + 1 if before == (self.moves, self.owner) else 0


@st.composite
def fleets(draw: st.DrawFn, limited: bool) -> Fleet:
    replicas = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    names = [f"w{number}" for number in range(draw(st.integers(1, 4)))]
    made = Fleet(
        {f"p{number}": count for number, count in enumerate(replicas)},
        {name: draw(limits) if limited else Limits() for name in names},
    )
    for slot in [(name, number) for name, count in made.replicas.items() for number in range(count)]:
        worker = draw(st.none() | st.sampled_from(names))
        if worker is None:
            continue
        limit, mine = made.limits[worker], made.mine(worker)
        of_it = sum(lease.pipeline_id == slot[0] for lease in mine)
        if (limit.slots is None or len(mine) < limit.slots) and (
            limit.per_pipeline is None or of_it < limit.per_pipeline
        ):
            made.owner[slot] = worker
    return made


@settings(max_examples=cases(300), deadline=None)
@given(fleets(limited=False), st.integers(0, 1_000))
def test_slots_are_spread_evenly_and_then_rest(fleet: Fleet, seed: int) -> None:
    fleet.settle(seed)
    loads = [Counter(fleet.owner.values())[each] for each in fleet.limits]
    assert sum(loads) == sum(fleet.replicas.values())
    assert max(loads) - min(loads) <= 1
    held = fleet.held()
    for pipeline in fleet.replicas:
        counts = [held.get(each, Counter())[pipeline] for each in fleet.limits]
        assert max(counts) - min(counts) <= 2


@settings(max_examples=cases(300), deadline=None)
@given(fleets(limited=True), st.integers(0, 1_000))
def test_limits_hold_and_slots_rest_whatever_the_limits_are(fleet: Fleet, seed: int) -> None:
    fleet.settle(seed)
    for worker, limit in fleet.limits.items():
        held = fleet.held().get(worker, Counter())
        assert limit.slots is None or held.total() <= limit.slots
        assert limit.per_pipeline is None or max(held.values(), default=0) <= limit.per_pipeline
    for name, count in fleet.replicas.items():  # a slot stays free only if nobody may take it
        if sum(slot[0] == name for slot in fleet.owner) < count:
            for worker, limit in fleet.limits.items():
                held = fleet.held().get(worker, Counter())
                is_full = limit.slots is not None and held.total() >= limit.slots
                assert is_full or (limit.per_pipeline is not None and held[name] >= limit.per_pipeline)


@settings(max_examples=cases(300), deadline=None)
@given(st.integers(0, 60), st.lists(st.integers(0, 20), min_size=1, max_size=6), st.lists(st.integers(0, 20)))
def test_shares_add_up_and_differ_by_one_below_the_limits(total: int, most: list[int], loads: list[int]) -> None:
    peers = [Peer(f"w{number}", limit) for number, limit in enumerate(most)]
    share = targets(total, peers, {f"w{number}": load for number, load in enumerate(loads)})
    assert sum(share.values()) == min(total, sum(most))
    assert all(share[peer.id] <= peer.most for peer in peers)
    free = [share[peer.id] for peer in peers if share[peer.id] < peer.most]
    assert not free or max(share.values()) <= min(free) + 1


def test_all_workers_compute_the_same_shares() -> None:
    peers = [Peer("a", 9), Peer("b", 9), Peer("c", 1)]
    assert targets(7, peers, {"b": 4}) == targets(7, peers[::-1], {"b": 4}) == {"a": 3, "b": 3, "c": 1}


def held_by(*leases: str) -> list[SlotLease]:
    """`a0` is slot 0 of pipeline a."""
    return [SlotLease(each[0], int(each[1:]), 1) for each in leases]


def test_a_new_worker_is_given_slots_of_the_pipelines_of_which_most_are_held() -> None:
    peers = [Peer("x", 9), Peer("y", 9)]
    given_away = surplus("x", held_by("a0", "a1", "a2", "a3", "b0"), peers, {}, {"x": 3, "y": 2})
    assert given_away == held_by("a3", "a2")


def test_replicas_of_one_pipeline_are_spread_by_swapping() -> None:
    peers, share = [Peer("x", 9), Peer("y", 9)], {"x": 2, "y": 2}
    assert surplus("x", held_by("a0", "a1"), peers, {"y": Counter(b=2)}, share) == held_by("a1")
    assert surplus("y", held_by("b0", "b1"), peers, {"x": Counter(a=2)}, share) == [], "both would move"
    assert surplus("y", held_by("b0", "b1", "a1"), peers, {"x": Counter(a=1)}, share) == held_by("b1")


def test_nothing_is_given_for_a_swap_that_the_limits_of_the_giver_forbid() -> None:
    peers = [Peer("x", 9, per_pipeline=2), Peer("y", 9)]
    assert surplus("x", held_by("a0", "a1", "b0", "b1"), peers, {"y": Counter(b=4)}, {"x": 4, "y": 4}) == []


@pytest.mark.parametrize("replicas", [0, 5])
def test_a_worker_that_the_others_do_not_see_gives_everything_away_without_an_error(replicas: int) -> None:
    share = targets(replicas, [Peer("y", 9)], {})
    assert len(surplus("x", held_by("a0", "a1"), [Peer("y", 9)], {}, share)) == min(replicas, 2)


def test_what_a_worker_can_hold_follows_from_its_limits_and_what_is_wanted() -> None:
    assert Peer.of("w", Limits(), [3, 2]).most == 5
    assert Peer.of("w", Limits(per_pipeline=1), [3, 2]).most == 2
    assert Peer.of("w", Limits(slots=4, per_pipeline=2), [3, 2]).most == 4
    assert Peer.of("w", Limits(slots=1), []).most == 0
