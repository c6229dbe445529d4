"""Standing tasks that read partitions of a Kafka topic, against a real engine and broker, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gauss.clients.kafka.settings import client_conf
from gauss.stream.driver.tasks import outside_topics, reading
from gauss.stream.driver.tasks.chain_steps import ChainMember
from helpers.chain_worlds import World
from helpers.kafka import SecuredBroker, produce
from helpers.standing import HostedTask
from helpers.waiting import wait_until

pytestmark = pytest.mark.system
PARTITIONS = 3
JOBS = {"a": "{n}", "b": "{m: .n}"}


@pytest.fixture(params=["offset"])
def world(tmp_path: Path, kafka: SecuredBroker, request: pytest.FixtureRequest) -> Iterator[World]:
    """Two processors that read the same topic in Kafka."""
    read = {"name": "in", "storage": "kafka", "storage_config": kafka.topic(partitions=PARTITIONS)}
    found = World(
        tmp_path,
        {
            "formats": [{"name": "n", "plugin": "json", "config": {"fields": [{"name": "n", "type": "int64"}]}}],
            "topics": [read, *({"name": f"out.{name}", "storage": "memory"} for name in JOBS)],
            "processors": [
                {
                    "name": name,
                    "plugin": "expression",
                    "source": {"topic": "in", "read": request.param},
                    "target": {"topic": f"out.{name}"},
                    "config": {"input": {"format": "n"}, "program": program},
                }
                for name, program in JOBS.items()
            ],
        },
    )
    yield found
    found.close()
    outside_topics._forget()
    reading.engine.cache_clear()


def topic(world: World) -> str:
    return str(world.pipeline.topic("in").storage_config["topic"])


def fill(world: World, kafka: SecuredBroker, records: list[list[bytes]], **more: Any) -> None:
    """Writes records to each partition."""
    for partition, some in enumerate(records):
        given: list[Any] = [(data, None, []) for data in some]
        produce(kafka.settings, topic(world), given, partition=partition, **more)


def run_until(world: World, task: HostedTask, count: int, *names: str) -> None:
    def is_done() -> bool:
        task.run()
        return all(len(world.records(f"out.{name}")) == count for name in names)

    wait_until(is_done, 60, lambda: {name: world.records(f"out.{name}")[-3:] for name in names})


def numbers(world: World, name: str) -> list[int]:
    return sorted(next(iter(json.loads(data).values())) for _, _, data in world.records(f"out.{name}"))


def test_small_ranges_of_all_partitions_are_decoded_at_once(
    world: World, kafka: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    joined = ChainMember.read_joined

    def counted(member: ChainMember, records: pa.RecordBatch, part: reading.Range) -> bool:
        decoded.append(len(records))
        return joined(member, records, part)

    monkeypatch.setattr(ChainMember, "read_joined", counted)
    fill(world, kafka, [[b'{"n":%d}' % (10 * partition + n) for n in range(10)] for partition in range(PARTITIONS)])
    run_until(world, world.task("a"), 30, "a")
    assert numbers(world, "a") == list(range(30))
    assert decoded and sum(decoded) >= 20, "of at least two partitions"


def test_dead_letter_of_a_small_range_has_its_partition(world: World, kafka: SecuredBroker) -> None:
    fill(world, kafka, [[b'{"n":0}', b'{"n":1}'], [b'{"n":2}', b"bad"], [b'{"n":3}', b'{"n":"x"}', b'{"n":4}']])
    run_until(world, world.task("a"), 5, "a")
    assert numbers(world, "a") == list(range(5))
    letters = [json.loads(data) for _, _, data in world.records("_dead")]
    assert sorted((each["partition"], each["offset"], each["reason"]) for each in letters) == [
        (1, 1, "bad_json"),
        (2, 1, "wrong_type"),
    ]


def test_gaps_in_shared_ranges_are_not_missed(world: World, kafka: SecuredBroker) -> None:
    task = HostedTask(world.client, world.engine.paths, world.pipeline, ["a"], ["b"])
    fill(world, kafka, [[b'{"n":%d}' % n for n in range(300)], [], []], commit=lambda number: number != 1)
    run_until(world, task, 200, "a", "b")
    assert missed(world) == {"a": 0, "b": 0}
    task.close()


@pytest.mark.parametrize("world", ["latest"], indirect=True)
def test_newest_record_is_found_behind_marks_of_transactions_and_aborted_records(
    world: World, kafka: SecuredBroker
) -> None:
    task = world.task("a")
    fill(world, kafka, [[b'{"n":%d}' % n for n in range(300)], [b'{"n":1000}'], []], commit=lambda number: number != 2)

    def read(wanted: set[int]) -> bool:
        task.run()
        return wanted <= set(numbers(world, "a"))

    wait_until(lambda: read({199, 1000}), 60, lambda: numbers(world, "a"))
    fill(world, kafka, [[b'{"n":2000}'], [], []], commit=lambda _: True)
    wait_until(lambda: read({2000}), 60, lambda: numbers(world, "a"))
    # The engine may have looked after the first transaction.
    assert [number for number in numbers(world, "a") if number != 99] == [199, 1000, 2000]


def test_records_deleted_from_a_shared_range_are_missed_by_all_its_processors(
    world: World, kafka: SecuredBroker
) -> None:
    task = HostedTask(world.client, world.engine.paths, world.pipeline, ["a"], ["b"])
    fill(world, kafka, [[b'{"n":%d}' % n for n in range(10)], [], []])
    grants: dict[str, Any] = {}
    wait_until(lambda: grants.update(task.granted()) or len(grants) == 2)
    assert {grant.end["in"].off for grant in grants.values()} == {10}
    client = AdminClient({**client_conf(kafka.settings)})
    for each in client.delete_records([TopicPartition(topic(world), 0, 6)]).values():
        each.result()
    task.work(grants)
    assert numbers(world, "a") == numbers(world, "b") == list(range(6, 10))
    assert missed(world) == {"a": 6, "b": 6}
    task.close()


def missed(world: World) -> dict[str, int]:
    found = world.client.command("readers.ls")["readers"]
    return {name: sum(each["missed"] for each in found if each["name"] == name) for name in JOBS}
