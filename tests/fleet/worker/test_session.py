"""How the ranges of an instance are made, without servers: after attempts that were too late, and of many letters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.kafka.admin import Topic
from gauss.fleet.config.stored import TO_STORE
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.claims import Claim, Intent, Outcome
from gauss.fleet.leases.deadline import Deadline
from gauss.fleet.leases.keeper import clock
from gauss.fleet.leases.owner import Owner
from gauss.fleet.leases.slots import Wanted
from gauss.fleet.store.configs import Kind
from gauss.fleet.store.letters import DeadLetter
from gauss.fleet.worker import range_work
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.fences import TooLate
from gauss.fleet.worker.instance import Instance, Surroundings
from gauss.fleet.worker.session import Session, transactions
from gauss.model.errors import Unavailable
from helpers.fleet import LocalRunner

CONFIGS: dict[Kind, dict[str, Any]] = {
    Kind.KAFKA: {"brokers": ["127.0.0.1:1"], "topic": "t"},
    Kind.CLICKHOUSE: {"dsn": "http://127.0.0.1:1"},
    Kind.MAPPING: {"columns": [{"fieldPath": "id", "column": "id", "type": "Int64"}]},
}
CLAIM = Claim("t", 0, "id", 7, 1, 100, 1, Intent(900, 3))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Of an instance whose servers are all away."""
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "fleet.key")
    pipeline = store.pipelines.create("orders", "", "me").id
    for kind, document in CONFIGS.items():
        store.configs.change(pipeline, kind, "me", partial(TO_STORE[kind], document))
    around = Surroundings(store, LocalRunner(), Clusters(), 6_000)
    instance = Instance(around, Owner("w", pipeline), None, Wanted(1, 3))
    yield Session(instance, instance.configs.at(3), Topic("t", "id", ()))
    store.close()


def test_a_range_that_is_too_late_again_and_again_is_cut_until_it_fits(session: Session) -> None:
    for size in (800, 400, 200):
        work = session._work(CLAIM)
        assert (work.range.start, work.range.end, work.settle_s) == (100, 100 + size, 0.0)
        session._fail(work, TooLate(""))
    assert session._work(CLAIM).is_unclear


def test_a_range_is_not_cut_while_an_insert_of_it_may_be_under_way(session: Session) -> None:
    session._fail(session._work(CLAIM), Unavailable("the answer was lost"))
    work = session._work(CLAIM)
    assert work.is_unclear and 0 < work.settle_s <= 6.0
    session._fail(work, TooLate(""))
    assert session._work(CLAIM).range.end == 900
    session._unclear[0] = time.monotonic() - 6.0
    work = session._work(CLAIM)
    assert work.settle_s == 0.0, "an attempt waits only for what is left of the time"
    session._fail(work, TooLate(""))
    assert session._work(CLAIM).range.end == 500


def test_a_task_that_starts_too_late_does_nothing(session: Session) -> None:
    work = session._work(CLAIM)
    with pytest.raises(TooLate):
        range_work.run(replace(work, deadline=Deadline.of(clock() - 1)))


def test_dead_letters_are_cut_to_what_every_store_can_keep() -> None:
    letter = DeadLetter(1, "map", "bad", "c", "quotes \0 and \udc80 of it " + "x" * 9_000, b"y" * 2_000, 0)
    cut = letter.cut(1_000, 100)
    assert (len(cut.data or b""), cut.detail[:27]) == (1_000, "quotes \\0 and \\udc80 of it ")
    assert len(cut.detail.encode()) < 200
    assert letter._replace(data=None).cut(1_000, 100).data is None


def test_outcomes_with_many_dead_letters_are_noted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.fleet.worker.session.MOST_LETTERS", 10)
    letter = DeadLetter(1, "map", "bad", "", "", b"", 0)
    outcomes = [Outcome(CLAIM, letters=[letter] * count) for count in (0, 4, 6, 1, 12, 0, 10)]
    assert [[len(each.letters) for each in some] for some in transactions(outcomes)] == [[0, 4, 6], [1], [12], [0, 10]]
    big = DeadLetter(1, "map", "bad", "", "", b"x" * (5 << 20), 0)
    assert [len(some) for some in transactions([Outcome(CLAIM, letters=[big])] * 3)] == [1, 1, 1]
    assert list(transactions([])) == []
