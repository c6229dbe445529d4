"""Faults of records, tables and servers while a pipeline runs: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from gauss.clients.kafka.reading import Bounds
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Kind
from gauss.fleet.worker import range_work
from gauss.fleet.worker.range_work import RangeWork
from gauss.model.errors import Unavailable
from helpers.fleet import LocalRunner, World
from helpers.kafka import SecuredBroker
from helpers.killable_server import KillableServer
from helpers.waiting import wait_until

pytestmark = pytest.mark.system


def told(world: World, text: str) -> None:
    """Waits until the state of a slot says it."""
    wait_until(lambda: any(text in each for each in world.reasons()), what=world.reasons)


def test_a_schema_that_changes_in_mid_stream_makes_dead_letters_of_what_does_not_fit(world: World) -> None:
    world.want()
    world.work(LocalRunner())
    world.ids(0, 60)
    world.wait_rows(60)
    world.produce(*(json.dumps({"id": f"n{number}"}).encode() for number in range(60)))
    world.produce(*(json.dumps({"id": number, "new": [1]}).encode() for number in range(60, 120)))
    world.wait_rows(120)
    wait_until(lambda: sum(each.dead_letters for each in world.claims()) == 60)
    letters = world.store.letters.list(world.id)
    assert {each.letter.reason for each in letters} == {"wrong_type"}
    assert {json.loads(each.letter.data or b"")["id"] for each in letters} == {f"n{number}" for number in range(60)}


def test_a_column_that_was_dropped_by_hand_is_told_and_made_again(world: World) -> None:
    columns = [
        {"fieldPath": "id", "column": "id", "type": "Int64"},
        {"fieldPath": "name", "column": "name", "type": "String", "nullable": True},
    ]
    world.put(Kind.MAPPING, {"columns": columns, "orderBy": ["id"]})
    world.want()
    world.work(LocalRunner())
    world.more(60)
    world.wait_sent()
    world.query("ALTER TABLE {table} DROP COLUMN name")
    world.more(60)
    world.wait_sent()
    assert not world.store.letters.list(world.id)


def test_a_table_that_was_dropped_by_hand_is_made_again_with_the_records_since(world: World) -> None:
    world.want()
    world.work(LocalRunner())
    world.ids(0, 60)
    world.wait_rows(60)
    world.query("DROP TABLE {table} SYNC")
    world.ids(60, 120)
    wait_until(lambda: world.rows() == list(range(60, 120)), what=lambda: (world.rows(), world.reasons()))
    assert not world.store.letters.list(world.id)


def test_rows_that_a_constraint_refuses_are_dead_letters(world: World) -> None:
    world.query(
        "CREATE TABLE {table} (id Int64, _inc Int64, _offset Int64, CONSTRAINT small CHECK id < 100)"
        " ENGINE = MergeTree ORDER BY id"
    )
    world.want()
    world.work(LocalRunner())
    world.ids(90, 110)
    wait_until(lambda: sum(each.dead_letters for each in world.claims()) == 10, what=world.reasons)
    assert world.rows() == list(range(90, 100))
    assert Counter(each.letter.stage for each in world.store.letters.list(world.id)) == {"insert": 10}


def test_records_that_the_brokers_deleted_before_they_were_read_are_told(world: World) -> None:
    world.want()
    world.work(LocalRunner())
    world.ids(0, 60)
    world.wait_rows(60)
    world.want("stopped")
    wait_until(lambda: not world.owners())
    world.ids(60, 120)
    place = confluent_kafka.TopicPartition(world.topic, 0, 30)
    client = AdminClient({"bootstrap.servers": world.brokers})
    client.delete_records([place])[place].result(30)
    world.want()
    world.wait_rows(110)
    (letter,) = world.store.letters.list(world.id)
    assert (letter.letter.stage, letter.letter.reason) == ("read", "deleted")
    assert "offsets 20 to 29" in letter.letter.detail


def test_records_that_the_brokers_deleted_after_they_were_inserted_count_as_rows(world: World) -> None:
    runner, lost = LocalRunner(), list[int]()

    def delete(works: Sequence[RangeWork]) -> None:
        if not works[0].is_check and not lost:
            lost.append(1)
            places = [confluent_kafka.TopicPartition(world.topic, number, at) for number, at in enumerate((20, 12, 0))]
            client = AdminClient({"bootstrap.servers": world.brokers})
            for each in client.delete_records(places).values():
                each.result(30)
            raise Unavailable("the answer was lost")

    runner.after = delete
    world.ids(0, 60)
    world.want()
    world.work(runner)
    wait_until(lambda: sum(each.rows for each in world.claims()) == 60, what=world.claims)
    assert world.rows() == list(range(60))
    assert lost and not world.store.letters.list(world.id)


def test_a_batch_in_hand_is_committed_when_the_pipeline_is_stopped(world: World) -> None:
    runner, inserting = LocalRunner(), list[int]()

    def stop(works: Sequence[RangeWork]) -> None:
        if not works[0].is_check and not inserting:
            inserting.append(1)
            world.want("stopped")

    runner.before = stop
    world.ids(0, 60)
    world.want()
    world.work(runner)
    wait_until(lambda: inserting and not world.owners())
    claims = world.claims()
    assert [each.pending_to for each in claims] == [None] * len(claims)
    assert sum(each.rows for each in claims) == len(world.rows()) > 0
    world.want()
    world.wait_rows(60)


def test_a_rate_limit_counts_for_the_whole_pipeline_and_does_not_block_stopping(world: World) -> None:
    """Also without leases, where the replicas say nothing about the number of instances."""
    world.put(Kind.CLICKHOUSE, {**world.clickhouse, "insertRateLimit": 20, "batchSize": 20})
    world.ids(0, 600)
    world.want()
    for _ in range(2):
        world.work(LocalRunner(), leases=False)
    wait_until(lambda: len(world.rows()) >= 40)
    wait_until(lambda: len({each.worker_id for each in world.claims()}) == 2)
    first = world.claims()
    began, rows = max(each.advanced_at or 0 for each in first), sum(each.rows for each in first)
    wait_until(lambda: len(world.rows()) >= rows + 120)
    claims = world.claims()
    seconds = (max(each.advanced_at or 0 for each in claims) - began) / 1000
    # Each instance may be one batch of each of its partitions ahead.
    assert sum(each.rows for each in claims) - rows <= 20 * seconds + 20 * len(claims) + 20
    world.want("stopped")
    wait_until(lambda: all(each.worker_id is None for each in world.claims()))
    assert len(world.rows()) < 600


def test_a_range_that_takes_longer_than_its_deadline_is_inserted_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.fleet.worker.range_work.BOUNDS", Bounds(rows=10, bytes=1 << 20))
    kept = range_work.kept_records

    def slow(*given: Any) -> Any:
        time.sleep(0.35)  # 15 blocks need longer than a deadline of 4 s
        return kept(*given)

    monkeypatch.setattr("gauss.fleet.worker.range_work.kept_records", slow)
    world.put(Kind.CLICKHOUSE, {**world.clickhouse, "batchSize": 10_000})
    world.partitions = 1  # the other two stay empty
    world.more(150)
    world.want()
    world.work(LocalRunner())
    world.wait_sent()
    assert world.claims()[0].batches >= 2, world.claims()


@pytest.fixture
def killable(kafka: SecuredBroker, tmp_path: Path) -> Iterator[tuple[World, KillableServer]]:
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "fleet.key")
    with KillableServer("clickhouse", tmp_path / "clickhouse") as server:
        world = World(store, kafka.broker.address, server.endpoint)
        yield world, server
        world.stop()
    store.close()


@pytest.mark.fault
def test_a_clickhouse_that_is_away_is_told_and_waited_for(killable: tuple[World, KillableServer]) -> None:
    world, server = killable
    world.want(replicas=2)
    world.work(LocalRunner())
    world.more(300)
    world.wait_sent()
    server.kill()
    world.more(300)
    told(world, "ClickHouse")
    server.start()
    world.wait_sent()
    assert not world.store.letters.list(world.id)


@pytest.mark.fault
def test_a_clickhouse_that_does_not_answer_is_waited_for_and_the_slots_are_kept(
    killable: tuple[World, KillableServer],
) -> None:
    world, server = killable
    world.want(replicas=2)
    world.work(LocalRunner())
    world.more(300)
    world.wait_sent()
    epochs = [each.epoch for each in world.store.leases.assignments(world.id)]
    server.freeze()
    world.more(300)
    wait_until(lambda: any(each.pending_to for each in world.claims()))
    server.thaw()
    world.wait_sent()
    assert [each.epoch for each in world.store.leases.assignments(world.id)] == epochs
