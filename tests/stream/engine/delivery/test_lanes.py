"""Grants of processors that read partitions and write to outside systems: each partition in one lane at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.clients.engine.positions import place_key
from gauss.clients.engine.task_messages import Grant, Missed, Publish
from gauss.model.errors import Fenced
from helpers.delivery import Delivery
from helpers.granted_tasks import Task, numbers, standing


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    return Delivery(tmp_path, partitions=3)


def fill(delivery: Delivery, count: int, *partitions: int) -> None:
    for partition in partitions:
        delivery.feed(*numbers(count), topic=place_key("in", partition))


def moved(grant: Grant) -> dict[str, tuple[int, int]]:
    """The ranges of a grant."""
    return {
        key: (grant.start[key].off if key in grant.start else 0, at.off)
        for key, at in grant.end.items()
        if grant.start.get(key) != at
    }


def publish(task: Task, grant: Grant) -> None:
    """Publishes an epoch whose records the task has written itself."""
    whole = Publish("p", task.generations["p"], "", grant.epoch, grant.end, {}, written={"out": 10})
    task.delivery.grants.publish(whole)


def test_one_task_gets_the_records_of_all_partitions(delivery: Delivery) -> None:
    fill(delivery, 20, 0, 1, 2)
    grant = standing(delivery).one(30)
    assert moved(grant) == {"in": (0, 10), "in/1": (0, 10), "in/2": (0, 10)}
    assert grant.end["in/2"].partition == 2


def test_partition_in_progress_is_granted_to_nobody_else(delivery: Delivery) -> None:
    fill(delivery, 20, 0, 1)
    one = standing(delivery)
    two = Task(delivery, one.job, 1)
    two.claim()
    first = one.one(30)
    assert not two.next().grants
    fill(delivery, 20, 2)
    second = two.one(30)
    assert (moved(second), second.lane) == ({"in/2": (0, 20)}, 1)
    publish(one, first)
    third = one.one()
    assert moved(third) == {"in": (15, 20), "in/1": (15, 20)}
    publish(two, second)
    publish(one, third)
    assert not one.next().grants
    assert delivery.running.bytes == 30


def test_unpublished_epochs_are_granted_again_with_their_lanes_after_a_restart(delivery: Delivery) -> None:
    fill(delivery, 20, 0, 1)
    one = standing(delivery)
    two = Task(delivery, one.job, 1)
    two.claim()
    first = one.one(20)
    fill(delivery, 20, 2)
    second = two.one(10)
    again = standing(delivery)
    given = [again.one(5), again.one(5)]
    assert [(grant.end, grant.lane, grant.again) for grant in given] == [
        (first.end, 0, True),
        (second.end, 1, True),
    ]
    with pytest.raises(Fenced):
        publish(one, first)
    for grant in given:
        publish(again, grant)
    fresh = again.one(1_000)
    assert not fresh.again and fresh.start == second.end


def test_lane_with_an_unpublished_epoch_gets_no_other_one(delivery: Delivery) -> None:
    fill(delivery, 20, 0)
    one = standing(delivery)
    two = Task(delivery, one.job, 1)
    two.claim()
    two.one()
    one = standing(delivery)
    two = Task(delivery, one.job, 1)
    two.claim()
    again = one.one()  # the epoch of the other task's lane
    fill(delivery, 20, 1)
    assert (again.lane, two.next().grants) == (1, {})
    publish(one, again)
    assert moved(two.one()) == {"in/1": (0, 20)}


def test_grants_of_a_journal_without_lanes_are_those_of_lane_0(delivery: Delivery) -> None:
    fill(delivery, 20, 0)
    standing(delivery).one(5)
    row = delivery.ledger.row("p")
    assert row is not None and row.lanes == [0]
    row.lanes = []
    assert standing(delivery).one().lane == 0


def test_partition_that_is_added_is_read_from_its_start(delivery: Delivery) -> None:
    fill(delivery, 5, 0, 1, 2)
    task = standing(delivery)
    publish(task, task.one())
    delivery.add_partition("in/3")
    assert not task.next().grants
    fill(delivery, 5, 3)
    grant = task.one()
    assert moved(grant) == {"in/3": (0, 5)}
    publish(task, grant)
    row = delivery.ledger.row("p")
    assert row is not None and row.ends["in/3"] == grant.end["in/3"]
    assert not task.next().grants


def test_query_follows_a_partition_that_is_added(delivery: Delivery) -> None:
    claimed = delivery.claim()
    fill(delivery, 5, 0)
    delivery.add_partition("in/3")
    fill(delivery, 7, 3)
    found = delivery.latest(claimed.start)
    offsets = {key: at.off for key, at in found.end.items() if at.off}
    assert (offsets, found.rows) == ({"in": 5, "in/3": 7}, 12)


def test_records_deleted_before_a_task_has_read_them_are_counted_once(delivery: Delivery) -> None:
    fill(delivery, 20, 1)
    task = standing(delivery)
    grant = task.one()
    inc = grant.end["in/1"].inc
    for _ in range(2):
        delivery.sources.missed(Missed("p", task.generations["p"], "in/1", inc, 0, 8))
    assert delivery.running.readers["in/1"].missed_records == 8
    with pytest.raises(Fenced):
        delivery.sources.missed(Missed("p", 0, "in/1", inc, 0, 8))


def test_seek_of_one_partition_leaves_the_others(delivery: Delivery) -> None:
    fill(delivery, 10, 0, 1)
    task = standing(delivery)
    publish(task, task.one())
    delivery.publisher.seek("p", "in/1", 4)
    again = standing(delivery)
    assert moved(again.one()) == {"in/1": (4, 10)}


def test_epochs_of_a_topic_that_was_created_again_are_not_repeated(delivery: Delivery) -> None:
    fill(delivery, 20, 0, 1)
    standing(delivery).one()
    for number in range(3):
        delivery.topics[place_key("in", number)].inc += 1
    again = standing(delivery).one()
    assert not again.again and again.end["in"].inc == delivery.topics["in"].inc
