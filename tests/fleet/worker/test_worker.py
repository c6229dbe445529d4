"""Workers with a real broker and a real ClickHouse: each record becomes one row, whatever fails on the way."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest
from confluent_kafka.admin import AdminClient

from gauss.clients.clickhouse.connect import connect
from gauss.clients.kafka.admin import Admin
from gauss.fleet.store.configs import Kind
from gauss.fleet.worker.range_work import RangeWork
from gauss.fleet.worker.worker import Settings, new_worker_id
from gauss.model.errors import ConfigError, Unavailable
from helpers.fleet import LocalRunner, World
from helpers.kafka import settings
from helpers.waiting import wait_until

pytestmark = pytest.mark.system


def test_records_become_rows_and_bad_ones_dead_letters(world: World) -> None:
    world.put(Kind.FILTERS, {"enabled": True, "expression": ".id >= 10"})
    world.ids(0, 100)
    world.produce(b"{bad", None, b'{"id": "x"}')
    world.want()
    world.work(LocalRunner())
    world.wait_rows(90)
    wait_until(lambda: len(world.store.letters.list(world.id)) == 3)
    found = {(each.letter.stage, each.letter.reason, each.letter.data) for each in world.store.letters.list(world.id)}
    assert found == {
        ("filter", "bad_json", b"{bad"),
        ("read", "tombstone", None),
        ("filter", "wrong_type", b'{"id": "x"}'),
    }
    claims = world.store.claims.list(world.id)
    assert sum(each.rows for each in claims) == 90
    assert all(each.end_offset in (each.next_offset, 0) for each in claims)


def test_replicas_share_partitions_and_are_scaled_and_stopped(world: World) -> None:
    world.ids(0, 60)
    world.want(replicas=2)
    world.work(LocalRunner())
    world.work(LocalRunner())
    world.wait_rows(60)
    wait_until(lambda: len(world.store.leases.assignments(world.id)) == 2)
    wait_until(lambda: {each.slot for each in world.store.claims.list(world.id)} == {0, 1})
    group, kafka = f"gauss-{world.id}", Admin(settings(world.brokers))
    tool = AdminClient({"bootstrap.servers": world.brokers})
    assert len(tool.describe_consumer_groups([group])[group].result(20).members) == 2
    numbers = range(world.partitions)
    wait_until(
        lambda: (
            {number: each.offset for number, each in kafka.committed(group, world.topic, numbers).items()}
            == {each.partition: each.next_offset for each in world.claims()}
        )
    )
    world.want(replicas=1)
    wait_until(lambda: [each.slot for each in world.store.leases.assignments(world.id)] == [0])
    world.ids(60, 90)
    world.wait_rows(90)
    world.want("stopped")
    wait_until(lambda: not world.store.leases.assignments(world.id))
    assert all(each.worker_id is None for each in world.store.claims.list(world.id))


def test_a_lost_answer_after_an_insert_doubles_nothing(world: World) -> None:
    runner, lost = LocalRunner(), list[int]()

    def lose(works: Sequence[RangeWork]) -> None:
        if len(lost) < 4:
            lost.append(len(works))
            raise Unavailable("the answer was lost")

    runner.after = lose
    world.ids(0, 90)
    world.want()
    world.work(runner)
    wait_until(lambda: sum(each.rows for each in world.store.claims.list(world.id)) == 90)
    world.wait_rows(90)
    assert len(lost) == 4


def test_an_owner_that_lost_its_partitions_commits_nothing_and_its_range_is_settled(world: World) -> None:
    runner, taken = LocalRunner(), list[int]()

    def take_over(_: Sequence[RangeWork]) -> None:
        """Another owner takes the partitions between the intent and the advance."""
        if not taken:
            taken.append(1)
            with world.store.database.transaction() as connection:
                connection.exec_driver_sql("UPDATE claims SET epoch = epoch + 1, worker_id = 'other'")

    runner.after = take_over
    world.ids(0, 90)
    world.want()
    world.work(runner)
    world.wait_rows(90)
    wait_until(lambda: sum(each.rows for each in world.store.claims.list(world.id)) == 90)
    assert min(each.epoch for each in world.store.claims.list(world.id)) >= 3


def test_edits_apply_while_it_runs_and_a_wrong_one_is_a_state_until_it_is_corrected(world: World) -> None:
    world.ids(0, 30)
    world.want()
    world.work(LocalRunner())
    world.wait_rows(30)
    columns = [
        {"fieldPath": "id", "column": "id", "type": "Int64"},
        {"fieldPath": "name", "column": "name", "type": "String", "nullable": True},
    ]
    world.put(Kind.MAPPING, {"columns": columns, "orderBy": ["id"]})
    world.produce(json.dumps({"id": 30, "name": "new"}).encode())
    world.wait_rows(31)
    world.put(Kind.MAPPING, {"columns": [{"fieldPath": "id", "column": "id", "type": "String"}]})
    numbers = itertools.count(31)

    def differs() -> bool:
        """Records go on coming, since the edit applies between two batches."""
        world.ids(number := next(numbers), number + 1)
        return any("differs" in each for each in world.reasons())

    wait_until(differs)
    world.put(Kind.MAPPING, {"columns": columns, "orderBy": ["id"]})
    world.wait_rows(next(numbers))


def test_a_table_of_the_users_is_filled_and_not_changed(world: World) -> None:
    client = connect(world.endpoint)
    client.command(f"CREATE TABLE {world.topic} (id Int64, made DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY id")
    world.ids(0, 30)
    world.want()
    world.work(LocalRunner())
    world.wait_rows(30)
    columns = client.query(f"SELECT name FROM system.columns WHERE table = '{world.topic}'").result_rows
    assert {name for (name,) in columns} == {"id", "made"}
    client.close()


def test_without_leases_each_worker_runs_every_pipeline(world: World) -> None:
    world.ids(0, 60)
    world.want()
    first, second = world.work(LocalRunner(), leases=False), world.work(LocalRunner(), leases=False)
    world.wait_rows(60)
    wait_until(lambda: {each.worker_id for each in world.store.claims.list(world.id)} == {first.id, second.id})
    assert world.store.leases.assignments() == []
    assert {each.mode for each in world.store.workers.list()} == {"no-leases"}
    wait_until(lambda: [each.instances for each in world.store.workers.list()] == [{world.id: ("running", "")}] * 2)
    world.put(Kind.CLICKHOUSE, {**world.clickhouse, "table": "missing", "createTableIfMissing": False})
    world.ids(60, 120)

    def failing() -> bool:
        told = [each.instances.get(world.id, ("", "")) for each in world.store.workers.list()]
        return all(state == "failing" and "is missing" in reason for state, reason in told)

    wait_until(failing)
    world.want("stopped")
    wait_until(lambda: not any(each.instances for each in world.store.workers.list()))


def test_a_deleted_pipeline_stops(world: World) -> None:
    world.ids(0, 30)
    world.want()
    worker = world.work(LocalRunner())
    world.wait_rows(30)
    world.store.pipelines.delete(world.id, "test")
    wait_until(lambda: "gauss_worker_instances 0" in worker.metrics())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Settings(5_999, 1_000), "at least 6s"),
        (Settings(6_000, 2_001), "a third of --lease-ttl"),
        (Settings(6_000, 0), "a third of --lease-ttl"),
    ],
)
def test_times_that_can_not_hold_are_refused(given: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        given.check()


def test_worker_ids_never_collide() -> None:
    assert len({new_worker_id() for _ in range(100)}) == 100
