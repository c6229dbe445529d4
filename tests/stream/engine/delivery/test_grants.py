"""Epochs of standing tasks: granted in order, published in order, fenced by generation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.clients.engine.task_messages import (
    Emptied,
    Grant,
    Granted,
    Next,
    Publish,
)
from gauss.model.errors import Fenced, ProtocolError
from gauss.model.names import retry_topic
from helpers.cases import cases
from helpers.delivery import INLET, Delivery
from helpers.granted_tasks import Task, numbers, standing


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    return Delivery(tmp_path)


def test_consecutive_ranges_are_granted_and_published_as_they_were(delivery: Delivery) -> None:
    delivery.feed(*numbers(100))
    task = standing(delivery)
    first, second = task.one(30), task.one(50)
    assert [(grant.epoch, grant.start["in"].off, grant.end["in"].off) for grant in (first, second)] == [
        (0, 0, 30),
        (1, 30, 80),
    ]
    task.publish(first)
    task.publish(second)
    task.publish(task.one())
    assert delivery.data() == numbers(100)


def test_publishes_come_in_the_order_of_the_grants(delivery: Delivery) -> None:
    delivery.feed(*numbers(60))
    one = standing(delivery)
    two = Task(delivery, one.job, 1)
    assert two.claim().joined
    first, second = one.one(30), two.one(30)
    late = threading.Thread(target=lambda: two.publish(second))
    late.start()
    late.join(0.2)
    assert late.is_alive() and delivery.data() == []
    one.publish(first)
    late.join(30)
    assert delivery.data() == numbers(60)


def test_position_frees_what_is_published_and_not_what_is_granted(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, size=10)
    delivery.feed(*numbers(10))
    task = standing(delivery)
    grant = task.one()
    feeder = threading.Thread(target=lambda: delivery.feed(b"more"))
    feeder.start()
    feeder.join(0.2)
    assert feeder.is_alive()
    task.publish(grant)
    feeder.join(30)
    assert task.one(wait_ms=10_000).end["in"].off == 11


def test_later_attempt_of_a_task_fences_all_and_begins_at_the_ledgers_end(delivery: Delivery) -> None:
    delivery.feed(*numbers(90))
    one = standing(delivery)
    two = Task(delivery, one.job, 1)
    two.claim()
    first, second = one.one(30), two.one(30)
    one.publish(first)
    again = Task(delivery, one.job, 0, 1)
    assert not again.claim().joined
    with pytest.raises(Fenced):
        two.publish(second)
    with pytest.raises(Fenced):
        two.next()
    assert two.claim().joined  # it is not fenced: it joins the new generation
    with pytest.raises(Fenced):
        one.claim()  # it is fenced
    grant = two.one(30)
    assert (grant.epoch, grant.start["in"].off) == (0, 30)
    two.publish(grant)
    again.publish(again.one())
    assert delivery.data() == numbers(90)


def test_earlier_job_is_refused_for_good(delivery: Delivery) -> None:
    old = standing(delivery)
    standing(delivery)
    with pytest.raises(Fenced):
        old.next()
    with pytest.raises(Fenced):
        old.claim()


def test_waiting_task_is_told_of_records_stops_claims_and_replays(delivery: Delivery) -> None:
    def soon(action: Callable[[], Any]) -> Granted:
        timer = threading.Timer(0.1, action)
        timer.start()
        began = time.monotonic()
        found = task.next(wait_ms=60_000)
        assert time.monotonic() - began < 30
        return found

    task = standing(delivery)
    assert soon(lambda: delivery.feed(b"x")).grants["p"].end["in"].off == 1
    assert soon(lambda: delivery.feed(b"again", topic=INLET)).grants["p"].end[INLET].off == 1
    assert soon(lambda: delivery.grants.end_job(task.job)).stop
    task = standing(delivery)
    assert task.next().grants  # a grant of the job that ended
    with pytest.raises(Fenced):
        soon(lambda: standing(delivery))


def test_a_job_is_told_how_many_of_its_tasks_go_on(delivery: Delivery) -> None:
    one = standing(delivery)
    two = Task(delivery, one.job, 1)
    two.claim()
    delivery.grants.end_job(one.job, keep=1)
    assert two.next().stop and not one.next().stop
    delivery.grants.end_job(one.job, keep=2)  # a late duplicate of the call
    two = Task(delivery, one.job, 1)
    two.claim()
    assert not two.next().stop


def test_one_that_reads_the_latest_is_woken_by_a_record(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, read="latest")
    task = standing(delivery)
    threading.Timer(0.1, lambda: delivery.feed(*numbers(3))).start()
    began = time.monotonic()
    grant = task.one(wait_ms=60_000)
    assert grant.end["in"].off == 3 and time.monotonic() - began < 30


def test_nothing_new_gives_no_grant(delivery: Delivery) -> None:
    assert standing(delivery).next(wait_ms=10) == Granted()


def test_few_records_wait_for_more_but_no_longer_than_the_flush(delivery: Delivery) -> None:
    task = standing(delivery)
    delivery.feed(*numbers(3))
    assert not task.next(min_rows=5, flush_ms=60_000).grants
    delivery.feed(*numbers(2))
    assert task.one(min_rows=5, flush_ms=60_000).end["in"].off == 5
    delivery.feed(b"x")
    began = time.monotonic()
    assert task.one(min_rows=5, flush_ms=100, wait_ms=60_000).end["in"].off == 6
    assert 0.09 < time.monotonic() - began < 30


def test_engine_that_restarts_grants_again_from_the_ledgers_end(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    task = standing(delivery)
    delivery.feed(*numbers(10))
    task.publish(task.one(4))
    delivery.ledger.close()
    after = Delivery(tmp_path)
    with pytest.raises(Fenced, match="standing"):
        after.grants.next(Next(dict(task.generations), 100, 1 << 30))
    again = Task(after, task.job)
    again.claim()
    after.feed(*numbers(3))
    grant = again.one()
    assert grant.start["in"].inc != grant.end["in"].inc == after.topics["in"].inc
    assert after.running.readers["in"].lost_on_restart == 6
    again.publish(grant)
    assert after.data() == numbers(3)


def test_grants_of_a_table_come_again_as_they_were(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, tracked=True)
    delivery.feed(*numbers(100))
    task = standing(delivery)
    first = task.one(10)
    task.one(20)
    task.one(30)
    task.publish(first)
    assert not first.again and first.settled == delivery.ends(0)
    again = Task(delivery, task.job, 0, 1)
    again.claim()
    ranges = []
    for _ in range(3):
        grant = again.one(1000)
        ranges.append((grant.start["in"].off, grant.end["in"].off, grant.again))
        again.publish(grant)
    assert ranges == [(10, 30, True), (30, 60, True), (60, 100, False)]
    assert delivery.data() == numbers(100)


def test_table_that_is_put_back_says_below_what_rows_may_be_there(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, tracked=True)
    delivery.claim("of Spark")  # as an earlier version wrote it
    delivery.feed(*numbers(10))
    delivery.publish(0, 10, checkpoint="of Spark")
    task = Task(delivery, delivery.grants.new_job())
    claimed = task.claim()
    assert (claimed.start["in"].off, claimed.rewound["in"].off) == (10, 10)
    delivery.feed(*numbers(10))
    task.publish(task.one(5))
    delivery.publisher.seek("p", "in", 3)
    claimed = task.claim()
    assert (claimed.start["in"].off, claimed.rewound["in"].off) == (3, 20)
    assert task.one().start["in"].off == 3


def test_rebuilt_table_is_filled_once_its_rows_are_gone(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, tracked=True)
    task = standing(delivery)
    row = delivery.ledger.row("p")
    assert row is not None
    row.empties = delivery.ends(5)
    delivery.feed(b"x")
    task = standing(delivery)
    assert not task.next().grants
    delivery.grants.emptied(Emptied("p", task.generations["p"]))
    assert task.next().grants


def test_unknown_stage_is_refused_and_the_epoch_can_be_claimed_anew(delivery: Delivery) -> None:
    delivery.feed(b"x")
    task = standing(delivery)
    grant = task.one()
    with pytest.raises(ProtocolError, match="unknown stage"):
        delivery.grants.publish(Publish("p", task.generations["p"], "", 0, grant.end, {"out": ["gone"]}))
    task.claim()
    task.publish(task.one())
    assert delivery.data() == [b"x"]


@settings(max_examples=cases(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["next", "publish", "die", "feed"])), max_size=60))
def test_tasks_that_come_and_go_write_every_record_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]]
) -> None:
    delivery = Delivery(tmp_path_factory.mktemp("tasks"))
    job, fed = delivery.grants.new_job(), 0
    tasks = [Task(delivery, job, number) for number in range(3)]
    held: dict[int, tuple[Task, Grant]] = {}
    for task in tasks:
        task.claim()

    def fenced(task: Task, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Fenced:
            task.claim()
            held.pop(task.task, None)
            return None

    def ready(task: Task) -> bool:
        """Whether it may publish now; otherwise it would wait for the other tasks."""
        row = delivery.ledger.row("p")
        return row is not None and held[task.task][1].epoch <= row.epoch + 1

    last = [(number, what) for _ in range(8) for number in range(3) for what in ("next", "publish")]
    for number, what in [*steps, *last]:
        task = tasks[number]
        if what == "feed":
            delivery.feed(*numbers(7, fed))
            fed += 7
        elif what == "die":
            tasks[number] = Task(delivery, job, number, task.attempt + 1)
            tasks[number].claim()
            held.pop(number, None)
        elif what == "next" and number not in held:
            granted = fenced(task, partial(task.next, 5))
            if granted is not None and granted.grants:
                held[number] = task, granted.grants["p"]
        elif what == "publish" and number in held and (ready(task) or _is_fenced(delivery, task)):
            grant = held.pop(number)[1]
            fenced(task, partial(task.publish, grant))
    assert delivery.data() == numbers(len(delivery.data()))
    assert retry_topic("p") == INLET


def _is_fenced(delivery: Delivery, task: Task) -> bool:
    row = delivery.ledger.row("p")
    return row is not None and row.generation != task.generations["p"]
