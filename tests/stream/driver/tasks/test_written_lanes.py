"""Tasks that write to a Kafka topic: late attempts of others, and records that are too large. Against a real engine and
broker, without a JVM."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark import TaskContext

from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import Claim
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import client_conf
from gauss.contracts.shared_log import LaneWriter
from gauss.model.errors import Fenced, StorageError
from gauss.stream.driver.planning.refs import OutsideTarget
from gauss.stream.driver.planning.writes import WriteRows
from gauss.stream.driver.queries.sink import BATCH_ID, StreamWriter, TaskStages
from gauss.stream.driver.tasks import hosted_loop, outside_topics, reading, written_lanes
from helpers.chain_worlds import World, data
from helpers.kafka import NOW, SecuredBroker
from helpers.standing import HostedTask
from helpers.waiting import wait_until

pytestmark = pytest.mark.system
LIMIT = 20_000


@pytest.fixture
def world(tmp_path: Path, kafka: SecuredBroker) -> Iterator[World]:
    """A processor from a topic of the engine to one in Kafka."""
    limit = {"max.message.bytes": str(LIMIT)}
    out = kafka.topic(partitions=1, compression="none", topic_config=limit)
    found = World(
        tmp_path,
        {
            "formats": [{"name": "n", "plugin": "json", "config": {"fields": [{"name": "n", "type": "int64"}]}}],
            "topics": [
                {"name": "in", "storage": "memory"},
                {"name": "out", "storage": "kafka", "storage_config": out},
            ],
            "processors": [
                {
                    "name": "p",
                    "plugin": "filter",
                    "source": {"topic": "in", "read": "offset"},
                    "target": {"topic": "out"},
                    "config": {"input": {"format": "n"}, "where": ".n >= 0"},
                }
            ],
        },
    )
    yield found
    found.close()
    written_lanes._forget()
    outside_topics._forget()
    reading.engine.cache_clear()


class Executor:
    """A Python process of Spark, as far as it has lanes open."""

    def __init__(self) -> None:
        self._writers: dict[written_lanes.Lane, LaneWriter] = {}

    @contextmanager
    def works(self) -> Iterator[None]:
        before, written_lanes._writers = written_lanes._writers, self._writers
        try:
            yield
        finally:
            written_lanes._writers = before

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


@pytest.fixture
def executors() -> Iterator[tuple[Executor, Executor]]:
    found = Executor(), Executor()
    yield found
    for each in found:
        each.close()


def numbered(*numbers: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in numbers]


def written(world: World, count: int) -> list[bytes]:
    """The records in Kafka, once there are so many."""
    wait_until(lambda: len(data(world, "out")) >= count, what=lambda: data(world, "out")[-3:])
    return data(world, "out")


def letters(world: World) -> list[tuple[str, str, str, int]]:
    found = [json.loads(each) for each in data(world, "_dead")]
    return [(each["reason"], each["processor"], each["topic"], len(base64.b64decode(each["data"]))) for each in found]


@pytest.mark.parametrize("was_open", [True, False])
def test_task_that_writes_after_its_successor_writes_nothing(
    world: World, executors: tuple[Executor, Executor], monkeypatch: pytest.MonkeyPatch, was_open: bool
) -> None:
    late, next_one = executors
    successors: list[HostedTask] = []

    def frozen(*given: Any, **named: Any) -> written_lanes.Written:
        monkeypatch.setattr(hosted_loop, "write_lane", written_lanes.write_lane)
        with next_one.works():
            successors.append(world.task("p"))
            successors[0].run()
            world.send("in", numbered(4, 5))
            successors[0].run()
        return written_lanes.write_lane(*given, **named)

    with late.works():
        task = world.task("p")
        world.send("in", numbered(1))
        if was_open:
            task.run()
        world.send("in", numbered(2, 3))
        monkeypatch.setattr(hosted_loop, "write_lane", frozen)
        with pytest.raises(Fenced, match="FENCED" if was_open else "generation 1 was replaced by 2"):
            task.run()
    world.send("in", numbered(6))
    with next_one.works():
        if not was_open:
            with pytest.raises(Fenced):  # by the late one, once
                successors[0].run()
            successors[0].claim()
        successors[0].run()
    assert written(world, 6) == numbered(1, 2, 3, 4, 5, 6)


class Query:
    """A claimed processor, and tasks of its batches."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self._monkeypatch = world, monkeypatch
        claimed = world.client.claim(Claim("p", "c", ["in"], ["out"]))
        self.start = claimed.start
        self.writer = StreamWriter(
            WriteRows(
                str(world.engine.paths.flight_json),
                "p",
                claimed.generation,
                "out",
                outside={"out": OutsideTarget()},
                checkpoint="c",
                checkpoint_dir="",
                series="c",
            )
        )

    def task(self, batch: int, *records: bytes) -> TaskStages:
        class Context:
            def partitionId(self) -> int:
                return 0

            def getLocalProperty(self, name: str) -> str | None:
                return str(batch) if name == BATCH_ID else None

        self._monkeypatch.setattr(TaskContext, "get", Context)
        rows = pa.record_batch({"_ts_ms": [NOW] * len(records), "_data": pa.array(records, pa.binary())})
        done = self.writer.write(iter([rows]))
        assert isinstance(done, TaskStages)
        return done

    def publish(self, batch: int, *done: TaskStages) -> None:
        self.world.send("in", [b"x"])
        self.writer.publisher.publish(done, batch, {**self.start, "in": At(self.start["in"].inc, batch + 1)})


@pytest.fixture
def query(world: World, monkeypatch: pytest.MonkeyPatch) -> Query:
    return Query(world, monkeypatch)


def test_late_attempt_of_a_batch_writes_nothing_after_the_next_batch(
    query: Query, executors: tuple[Executor, Executor]
) -> None:
    late, next_one = executors
    with next_one.works():
        for batch in range(11):
            query.publish(batch, query.task(batch, b"%d" % batch))
    with late.works():
        for batch in (2, 9):
            with pytest.raises(Fenced, match=f"has c/10, which is later than c/{batch}"):
                query.task(batch, b"%d" % batch)
        query.task(10, b"10")
    assert written(query.world, 11) == [b"%d" % batch for batch in range(11)]


def test_batches_of_a_new_series_are_written_though_their_numbers_are_smaller(query: Query) -> None:
    plan: Any = query.writer.plan
    query.task(5, b"5")
    query.writer.plan = WriteRows(**{name: getattr(plan, name) for name in plan.__struct_fields__} | {"series": "d"})
    query.task(0, b"0")
    query.task(0, b"0")
    assert written(query.world, 2) == [b"5", b"0"]


@pytest.fixture
def routed(tmp_path: Path, kafka: SecuredBroker) -> Iterator[World]:
    """A router to two topics in Kafka."""
    routes = [{"when": ".n < 10", "topic": "low"}, {"when": ".n >= 10", "topic": "high"}]
    found = World(
        tmp_path,
        {
            "formats": [{"name": "n", "plugin": "json", "config": {"fields": [{"name": "n", "type": "int64"}]}}],
            "topics": [
                {"name": "in", "storage": "memory"},
                *({"name": name, "storage": "kafka", "storage_config": kafka.topic()} for name in ("low", "high")),
            ],
            "processors": [
                {
                    "name": "p",
                    "plugin": "router",
                    "source": {"topic": "in", "read": "offset"},
                    "config": {"input": {"format": "n"}, "routes": routes},
                }
            ],
        },
    )
    yield found
    found.close()
    written_lanes._forget()
    outside_topics._forget()
    reading.engine.cache_clear()


@pytest.mark.parametrize("mended", [True, False])
def test_skip_of_an_epoch_of_which_a_part_is_written_finishes_it_if_it_can(
    routed: World, kafka: SecuredBroker, mended: bool
) -> None:
    high = str(routed.pipeline.topic("high").storage_config["topic"])
    Admin(kafka.settings).commit(f"gauss.p.{high}.0", high, {0: 5})  # by another tool
    routed.send("in", [*numbered(1, 10), b"bad", *numbered(2)])
    with pytest.raises(StorageError, match="another tool"):
        routed.task("p").run()
    routed.client.command("processors.skip", {"name": "p"})
    if mended:
        client = AdminClient({**client_conf(kafka.settings)})
        for done in client.delete_consumer_groups([f"gauss.p.{high}.0"]).values():
            done.result()
    task = routed.task("p")
    task.run()
    routed.send("in", numbered(3))
    task.run()
    wait_until(lambda: len(data(routed, "low")) >= 3, what=lambda: data(routed, "low"))
    assert data(routed, "low") == numbered(1, 2, 3)
    found = [(each["reason"], each["offset"], each["detail"]) for each in map(json.loads, data(routed, "_dead"))]
    if mended:
        wait_until(lambda: data(routed, "high") == numbered(10), what=lambda: data(routed, "high"))
        assert [each[:2] for each in found] == [("bad_json", 2)]
    else:
        assert [each[:2] for each in found] == [("skipped", offset) for offset in range(4)]
        assert all("another tool" in each[2] and "its results are in topic low already" in each[2] for each in found)


LARGE = b'{"n":7,"s":"%s"}' % (b"x" * LIMIT)


def test_record_that_is_too_large_is_one_dead_letter_of_its_task(
    world: World, executors: tuple[Executor, Executor]
) -> None:
    one, other = executors
    world.send("in", [*numbered(1, 2), LARGE, *numbered(3)])
    with one.works():
        task = world.task("p")
        task.hold(task.granted())  # written, and killed before it is published
    with other.works():
        successor = world.task("p")
        successor.run()
        world.send("in", [LARGE, *numbered(4)])
        successor.run()
    assert written(world, 4) == numbered(1, 2, 3, 4)
    assert letters(world) == [("too_large", "p", "out", len(LARGE))] * 2


def test_record_that_is_too_large_is_one_dead_letter_of_its_query(
    query: Query, executors: tuple[Executor, Executor]
) -> None:
    one, other = executors
    with one.works():
        query.task(0, b"1", LARGE, b"2")  # its executor is lost before it reports to Spark
    with other.works():
        query.publish(0, query.task(0, b"1", LARGE, b"2"))
        query.publish(1, query.task(1, b"3"))
    assert written(query.world, 3) == [b"1", b"2", b"3"]
    assert letters(query.world) == [("too_large", "p", "out", len(LARGE))]


def test_record_that_is_too_large_is_a_dead_letter_of_an_edge(world: World) -> None:
    world.send("out", [b"1", LARGE, b"2"])
    world.send("out", [b"3"])
    assert written(world, 3) == [b"1", b"2", b"3"]
    assert letters(world) == [("too_large", "p", "out", len(LARGE))], "the writer of the topic"
