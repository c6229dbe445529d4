"""Which free slots a worker takes."""

from __future__ import annotations

from collections import Counter

from gauss.fleet.leases.placement import UNLIMITED, Limits, choose
from gauss.fleet.leases.slots import SlotLease, Vacancy


def vacancies(pipelines: int, slots: int, free_ms: int = 0) -> list[Vacancy]:
    return [Vacancy(f"p{number}", slot, free_ms) for number in range(pipelines) for slot in range(slots)]


def test_a_worker_takes_its_fair_share_and_the_rest_only_when_others_leave_it() -> None:
    fresh, old = vacancies(2, 5), vacancies(2, 5, free_ms=5_000)
    assert len(choose(fresh, [], fair_share=4, patience_ms=5_000)) == 4
    assert len(choose(old, [], fair_share=4, patience_ms=5_000)) == 10


def test_limits_hold_whatever_is_free() -> None:
    free = vacancies(4, 5, free_ms=60_000)
    held = [SlotLease("p0", 9, 1)]
    assert len(choose(free, held, fair_share=99, patience_ms=0, limits=Limits(slots=6))) == 5
    chosen = choose(free, held, fair_share=99, patience_ms=0, limits=Limits(per_pipeline=2))
    assert Counter(pipeline for pipeline, _ in chosen) == {"p0": 1, "p1": 2, "p2": 2, "p3": 2}


def test_pipelines_of_which_least_is_held_come_first() -> None:
    held = [SlotLease("p0", 7, 1), SlotLease("p1", 7, 1)]
    chosen = choose(vacancies(3, 4), held, fair_share=4, patience_ms=1, limits=UNLIMITED)
    assert Counter(pipeline for pipeline, _ in chosen)["p2"] >= 1
    assert len(chosen) == 2
    assert chosen[0][0] == "p2"


def test_workers_that_start_together_begin_with_different_pipelines() -> None:
    assert len({choose(vacancies(50, 1), [], fair_share=1, patience_ms=1)[0] for _ in range(20)}) > 1
