"""kill -9 of a real engine during publishes: no epoch is partial, duplicated or lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.positions import At, Ends
from gauss.clients.engine.task_messages import Claim, Publish, Stage
from gauss.model.errors import Fenced, GaussError, ProtocolError
from helpers.engine_process import QuickEngine
from helpers.feeds import Counter
from helpers.run import free_port
from helpers.waiting import wait_until

EPOCH_ROWS = 50
KILLS = 30
TOPICS = [{"name": name, "storage": "file"} for name in ("in", "left", "right")]
BY_SPARK: dict[str, Any] = {
    "topics": TOPICS,
    "processors": [
        {
            "name": "p",
            "plugin": "filter",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "left"},
            "config": {"input": {"format": "json"}, "where": ".x > 1"},
        }
    ],
}
BY_PUMP: dict[str, Any] = {
    "topics": TOPICS,
    "processors": [
        {
            "name": "pass",
            "plugin": "passthrough",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "left"},
        }
    ],
}


@pytest.fixture
def spark_like(tmp_path: Path) -> Iterator[QuickEngine]:
    engine = QuickEngine(tmp_path, BY_SPARK)
    yield engine
    engine.close()


@pytest.fixture
def pumped(tmp_path: Path) -> Iterator[QuickEngine]:
    engine = QuickEngine(tmp_path, BY_PUMP)
    yield engine
    engine.close()


def rows(client: EngineClient, topic: str) -> list[tuple[int, bytes]]:
    return [
        (offset, data)
        for batch in client.scan(topic)
        for offset, data in zip(batch.column(0).to_pylist(), batch.column(2).to_pylist(), strict=True)
    ]


class Writer(threading.Thread):
    """Stages and publishes epochs into two topics, as a Spark query does, and starts over after each failure."""

    def __init__(self, client: EngineClient) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.stopping = threading.Event()
        self.acknowledged = -1

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._query()
            except (ProtocolError, Fenced):
                continue  # the engine and its stages are gone: the epoch is repeated under a new claim
            except GaussError:
                if not self.stopping.is_set():
                    raise

    def _query(self) -> None:
        claimed = self.client.claim(Claim("p", "c", ["in"], ["left", "right"]))
        epoch = claimed.epoch + 1
        # Spark repeats the last epoch if its commit log lacks it.
        for number in range(max(epoch - 1, 0), 1 << 30):
            if self.stopping.is_set():
                return
            stages = {topic: f"{topic}-{number}-{claimed.generation}" for topic in ("left", "right")}
            for topic, stage in stages.items():
                data = pa.array([b"%d:%d" % (number, row) for row in range(EPOCH_ROWS)], pa.binary())
                batch = pa.record_batch({"ts_ms": pa.nulls(EPOCH_ROWS, pa.int64()), "data": data})
                self.client.stage(Stage(stage, "p", claimed.generation, topic), [batch])
            ends: Ends = {name: At(at.inc, number + 1) for name, at in claimed.start.items()}
            publish = Publish("p", claimed.generation, "c", number, ends, {topic: [stages[topic]] for topic in stages})
            self.client.publish(publish)
            self.acknowledged = number


@pytest.mark.fault
def test_killed_in_the_middle_of_publishes_every_epoch_is_there_whole_and_once(spark_like: QuickEngine) -> None:
    spark_like.start()
    writer = Writer(spark_like.client)
    writer.start()
    chance = random.Random(7)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.25))
        spark_like.kill()
        spark_like.start()
    before = writer.acknowledged
    wait_until(lambda: writer.acknowledged > before, 60, "an epoch after the last kill")
    writer.stopping.set()
    writer.join(90)
    assert not writer.is_alive()
    spark_like.kill()
    spark_like.start()
    assert writer.acknowledged > 0
    left, right = rows(spark_like.client, "left"), rows(spark_like.client, "right")
    epochs = len(left) // EPOCH_ROWS
    assert epochs >= writer.acknowledged + 1
    expected = [b"%d:%d" % (epoch, row) for epoch in range(epochs) for row in range(EPOCH_ROWS)]
    assert [data for _, data in left] == expected
    assert [data for _, data in right] == expected
    assert [offset for offset, _ in left] == list(range(len(left)))


@pytest.mark.fault
def test_passthrough_between_files_is_exactly_once_across_kills(pumped: QuickEngine) -> None:
    pumped.start()
    chance = random.Random(11)
    sent = 0
    for _ in range(8):
        for _ in range(chance.randrange(1, 6)):
            batch = pa.record_batch(
                {"data": pa.array([b"%d" % number for number in range(sent, sent + 200)], pa.binary())}
            )
            assert pumped.client.append("in", [batch]) == 200
            sent += 200
        time.sleep(chance.uniform(0.0, 0.05))
        pumped.kill()
        pumped.start()
    wait_until(lambda: pumped.client.command("topic", {"name": "left"})["end"] >= sent)
    expected = [(number, b"%d" % number) for number in range(sent)]
    assert rows(pumped.client, "in") == expected
    assert rows(pumped.client, "left") == expected


@pytest.mark.fault
def test_read_goes_on_behind_its_last_record_when_the_engine_is_killed_meanwhile(pumped: QuickEngine) -> None:
    pumped.start()
    total = 20_000
    data = pa.array([b"%01000d" % number for number in range(total)], pa.binary())
    assert pumped.client.append("in", [pa.record_batch({"data": data})]) == total
    inc = pumped.client.command("topic", {"name": "in"})["inc"]
    offsets: list[int] = []
    for batch in pumped.client.read(Read("in", inc, 0, total)):
        if len(offsets) < total // 2 <= len(offsets) + batch.num_rows:
            pumped.kill()
            pumped.start()
        offsets += batch.column(0).to_pylist()
    assert offsets == list(range(total))


@pytest.mark.fault
@pytest.mark.parametrize(
    "storage", [{"segment_bytes": 4096, "fsync": "never"}, {"framing": "newline", "delimiter": "\n"}]
)
def test_killed_while_its_first_records_come_in_a_file_topic_lacks_none_of_them(
    tmp_path: Path, storage: dict[str, Any]
) -> None:
    port = free_port()
    feed = {
        "name": "feed",
        "plugin": "tcp-source",
        "target": {"topic": "in"},
        "config": {"port": port, "ack": "count", "input": {"framing": "newline"}},
    }
    topics = [{**topic, "storage_config": storage} for topic in TOPICS]
    engine = QuickEngine(tmp_path, {"topics": topics, "processors": [feed, *BY_PUMP["processors"]]})
    try:
        engine.start()
        counter = Counter(port, per_second=20_000)
        chance = random.Random(3)
        for _ in range(15):
            time.sleep(chance.uniform(0.0, 0.1))
            engine.kill()
            engine.start()
        before = counter.acknowledged
        wait_until(lambda: counter.acknowledged > before, 60, "records after the last kill")
        total = counter.finish()
        engine.kill()
        engine.start()
        found = rows(engine.client, "in")
        assert [offset for offset, _ in found] == list(range(len(found)))
        assert engine.client.command("topic", {"name": "in"})["lost"] == 0
        numbers = [int(data[5:-1]) for _, data in found]
        assert sorted(set(numbers)) == list(range(max(numbers) + 1)) and max(numbers) + 1 >= total
    finally:
        engine.close()
