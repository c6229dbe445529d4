"""Topics that change under a running pipeline: made anew, with more partitions, or another one."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from gauss.clients.kafka.admin import Admin
from gauss.fleet.store.configs import Kind
from gauss.fleet.worker.range_work import RangeWork
from helpers.fleet import LocalRunner, World
from helpers.kafka import settings
from helpers.waiting import wait_until

pytestmark = pytest.mark.system


def make_anew(world: World) -> None:
    admin = Admin(settings(world.brokers))
    admin.delete(world.topic)
    admin.create(world.topic, world.partitions)


def test_each_topic_of_one_name_is_read_from_its_beginning_and_no_record_comes_twice(world: World) -> None:
    world.want()
    world.work(LocalRunner())
    world.more(300)
    world.wait_sent()
    make_anew(world)
    world.more(30)  # fewer than the old one had
    world.wait_sent()
    make_anew(world)
    world.more(600)  # more than it had
    world.wait_sent()
    world.stop()
    make_anew(world)
    world.more(900)
    world.work(LocalRunner())
    world.wait_sent()
    assert world.query("SELECT uniqExact(_inc) FROM {table}") == [(4 * world.partitions,)]
    assert not world.store.letters.list(world.id)


@pytest.mark.parametrize("count", [300, 600])  # it ends where the range begins, or goes on behind its end
def test_records_of_a_topic_that_is_made_anew_between_intent_and_insert_are_not_taken_for_those_of_the_old_one(
    world: World, count: int
) -> None:
    runner, changed = LocalRunner(), list[int]()

    def change(works: Sequence[RangeWork]) -> None:
        if works[0].range.start >= 100 and not changed:
            changed.append(1)
            make_anew(world)
            world.ids(390, 390 + count)

    runner.before = change
    world.want()
    world.work(runner)
    world.more(300)
    world.wait_sent()
    world.more(90)  # lost with the old topic
    wait_until(
        lambda: len(world.rows()) >= 300 + count, what=lambda: (len(world.rows()), world.claims(), world.reasons())
    )
    assert world.rows() == [*range(300), *range(390, 390 + count)]
    letters = world.store.letters.list(world.id)
    assert changed and [each.letter.reason for each in letters] == ["recreated"] * world.partitions


def test_latest_leaves_out_what_was_there_but_nothing_of_partitions_that_are_added(world: World) -> None:
    world.put(Kind.KAFKA, {"brokers": world.brokers, "topic": world.topic, "startOffset": "latest"})
    world.ids(0, 30)
    world.want(replicas=2)
    world.work(LocalRunner())
    wait_until(lambda: [each.next_offset for each in world.claims()] == [10] * world.partitions, what=world.claims)
    world.ids(30, 60)
    world.wait_rows(30)
    world.stop()
    Admin(settings(world.brokers)).add_partitions(world.topic, 2 * world.partitions)
    world.partitions *= 2
    world.ids(60, 120)
    world.work(LocalRunner())
    world.wait_rows(90)
    assert world.rows() == list(range(30, 120))


def test_more_replicas_than_partitions_are_idle_and_say_so(world: World) -> None:
    world.want(replicas=world.partitions + 1)
    world.work(LocalRunner())
    wait_until(lambda: "idle" in {each.state for each in world.store.leases.assignments(world.id)}, what=world.reasons)
    assert f"no partition is left for it: the topic has {world.partitions}" in world.reasons()
    world.more(60)
    world.wait_sent()


def test_a_flood_of_bad_records_is_told_in_parts_that_the_store_can_take(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.fleet.worker.range_work.MOST_LETTERS", 500)
    monkeypatch.setattr("gauss.fleet.worker.session.MOST_LETTERS", 500)
    world.put(Kind.CLICKHOUSE, {**world.clickhouse, "batchSize": 10_000})
    good, bad = [json.dumps({"id": number}).encode() for number in range(600)], b'{"id": "\\u0000x"}'
    world.produce(*(value for number in range(600) for value in (good[number], *[bad] * 5)))
    world.want()
    world.work(LocalRunner())
    wait_until(lambda: sum(each.dead_letters for each in world.claims()) == 3_000, what=world.claims)
    world.wait_rows(600)
    assert len(world.store.letters.list(world.id, limit=5_000)) == 3_000
    assert all(each.batches >= 2 for each in world.claims()[1:]), "1,200 bad ones each"
    assert {each.next_offset for each in world.claims()} == {1_200}
