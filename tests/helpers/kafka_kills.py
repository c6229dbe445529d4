"""Kills parts of a run between Kafka topics at random moments, and looks whether each record is there once, in order.

`make kafka-kills` makes 100 rounds and goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import psutil

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.broker import Broker
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Range
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from helpers.kafka import cluster, topic_name
from helpers.run import DRIVER, Run
from helpers.waiting import wait_until

VICTIMS = ("worker", "engine", "pause", "driver", "broker", "outage")
OUTAGE_SECONDS = 60.0
PAUSE_SECONDS = 3.0
"""Longer than the transactions of a query may take: one that is open is aborted by the brokers."""
QUERY = """
[[topics]]
name = "queried"
storage = "kafka"
storage_config = {{ brokers = {brokers}, topic = "{queried}", partitions = 2, transaction_timeout = "2s", {more} }}

[[processors]]
name = "query"
plugin = "sql"
source = {{ topic = "given", read = "offset" }}
target = {{ topic = "queried" }}
config = {{ input = {{ format = "json" }}, output = {{ format = "json" }}, query = "SELECT k, n FROM input" }}
"""
PIPELINE = """
[spark]
master = "local[2]"

[[formats]]
name = "json"
plugin = "json"
config = {{ fields = [{{ name = "k", type = "string" }}, {{ name = "n", type = "int64" }}] }}

[[topics]]
name = "given"
storage = "kafka"
storage_config = {{ brokers = {brokers}, topic = "{given}", partitions = 3, format = "json", {more} }}

[[topics]]
name = "made"
storage = "kafka"
storage_config = {{ brokers = {brokers}, topic = "{made}", partitions = 2, format = "json", key_field = "k", {more} }}

[[processors]]
name = "copy"
plugin = "expression"
source = {{ topic = "given", read = "offset" }}
target = {{ topic = "made" }}
config = {{ input = {{ format = "json" }}, output = {{ format = "json" }}, program = '{{k: .["@key"], n}}' }}
"""


def pipeline(settings: KafkaSettings, given: str, made: str, queried: str = "") -> str:
    """Copies records to another topic, with the key as a field; with `queried` also by a streaming query."""
    more = f'request_timeout = "{settings.request_timeout}ms"'
    brokers = json.dumps(settings.brokers)
    text = PIPELINE.format(brokers=brokers, given=given, made=made, more=more)
    return text + QUERY.format(brokers=brokers, queried=queried, more=more) if queried else text


class Topics(NamedTuple):
    given: str
    made: str
    queried: str

    @classmethod
    def new(cls) -> Topics:
        """Names that no other test uses."""
        return cls(*(topic_name() for _ in cls._fields))


class Sender:
    """Somebody else who writes to a topic: numbered records of seven keys."""

    def __init__(self, settings: KafkaSettings, topic: str, first: int = 0) -> None:
        self._producer = confluent_kafka.Producer({**client_conf(settings), "enable.idempotence": True})
        self._topic = topic
        self.sent = first

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            self._producer.produce(self._topic, json.dumps({"n": number}), f"k{number % 7}")
            self._producer.poll(0)
        assert self._producer.flush(120) == 0
        self.sent += count


class Received:
    """The records of a topic that readers of committed transactions see."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._admin, self._reader, self._topic = Admin(settings), CompiledReader(settings), topic
        self._read: dict[int, int] = {}
        self.rows: list[dict[str, Any]] = []
        """By partition in order."""

    def look(self) -> int:
        """Reads what is new; returns the number of records."""
        numbers = [each.number for each in self._admin.describe(self._topic).partitions]
        for partition, end in sorted(self._admin.stable(self._topic, numbers).items()):
            self.rows += self._range(partition, self._read.get(partition, 0), end)
            self._read[partition] = end
        return len(self.rows)

    def raw(self) -> list[bytes]:
        """The data of all records; null is empty."""
        numbers = [each.number for each in self._admin.describe(self._topic).partitions]
        ends = self._admin.stable(self._topic, numbers).items()
        batches = [batch for number, end in ends for batch in self._reader.read(Range(self._topic, number, 0, end))]
        return [data or b"" for batch in batches for data in batch.column("data").to_pylist()]

    def _range(self, partition: int, start: int, end: int) -> Iterator[dict[str, Any]]:
        for batch in self._reader.read(Range(self._topic, partition, start, end)):
            for data, key in zip(batch.column("data"), batch.column("key"), strict=True):
                yield {**json.loads(data.as_py()), "key": (key.as_py() or b"").decode(), "partition": partition}

    def numbers(self) -> list[int]:
        self.look()
        return sorted(row["n"] for row in self.rows)

    def check(self, sent: int, *, ordered: bool = True) -> None:
        """Each number is there once, and those of a key are in order."""
        counted = Counter(row["n"] for row in self.rows)
        lost, doubled = set(range(sent)) - counted.keys(), [n for n, count in counted.items() if count > 1]
        assert not lost, f"{len(lost)} records are lost: {sorted(lost)[:5]}"
        assert not doubled, f"{len(doubled)} records came twice: {sorted(doubled)[:5]}"
        for key in {row["key"] for row in self.rows} if ordered else ():
            numbers = [row["n"] for row in self.rows if row["key"] == key]
            assert numbers == sorted(numbers), f"the records of {key} are out of order"


class KafkaKills:
    """A run from one topic to two, by a standing task and by a streaming query, and rounds of records with a kill."""

    def __init__(self, run: Run, settings: KafkaSettings, topics: Topics, brokers: Sequence[Broker] = ()) -> None:
        """`brokers`: of which one may be killed. A single one would lose committed records by itself: killed before it
        has written the markers of a transaction, it completes the transaction without them when it starts again."""
        self.run, self._brokers = run, brokers
        self.sender, self.received = Sender(settings, topics.given), Received(settings, topics.made)
        self._queried = Received(settings, topics.queried)

    def round(self, victim: str, chance: random.Random) -> None:
        self.sender.send(chance.randrange(500, 3_000))
        wait_until(lambda: self.received.look() > self.sender.sent // 4, 180, self.run.state)
        self.sender.send(chance.randrange(500, 3_000))
        time.sleep(chance.random() * 0.2)  # the moment is what differs between rounds
        self._kill(victim, chance)
        for received in (self.received, self._queried):
            wait_until(lambda: received.look() >= self.sender.sent, 240, self.run.state)  # noqa: B023
        self.received.check(self.sender.sent)
        self._queried.check(self.sender.sent, ordered=False)  # a query writes the ranges of a batch in parallel

    def _kill(self, victim: str, chance: random.Random) -> None:
        if victim == "worker":
            self.run.kill_worker(chance.choice)
        elif victim == "pause":
            self._pause()
        elif victim == "outage":
            self._outage()
        elif victim == "broker":
            broker = chance.choice(self._brokers)
            broker.kill()
            broker.start()
        else:
            self.run.kill("gauss.stream.engine" if victim == "engine" else DRIVER)

    def _outage(self) -> None:
        """All brokers are gone for a minute. Killed together they are like a single one: no transaction may be open."""
        for received in (self.received, self._queried):
            wait_until(lambda: received.look() >= self.sender.sent, 240, self.run.state)  # noqa: B023
        for broker in self._brokers:
            broker.kill()
        time.sleep(OUTAGE_SECONDS)
        for broker in self._brokers:
            broker.start(wait=False)
        for broker in self._brokers:
            broker.wait_ready()
        self.sender.send(1_000)

    def _pause(self) -> None:
        """Stops all workers for longer than a transaction of theirs may be open."""
        stopped = self.run.workers()
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        time.sleep(PAUSE_SECONDS)  # nothing happens in it that could be waited for
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.resume()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path(".cache/kafka-kills"))
    asked = parser.parse_args()
    record = asked.folder.absolute() / "rounds.json"
    done = json.loads(record.read_text()) if record.exists() else []
    folder = record.parent / str(len(done))
    folder.mkdir(parents=True, exist_ok=True)
    topics = Topics.new()
    with cluster(folder / "brokers", 3) as brokers:
        addresses = [broker.address for broker in brokers]
        settings = KafkaSettings.model_validate({"brokers": addresses, "request_timeout": "15s"})
        run = Run(folder, pipeline(settings, *topics)).start()
        try:
            kills = KafkaKills(run, settings, topics, brokers)
            chance = random.Random(len(done))
            while len(done) < asked.kills:
                began, victim = time.monotonic(), VICTIMS[len(done) % len(VICTIMS)]
                kills.round(victim, chance)
                done.append(victim)
                record.write_text(json.dumps(done))
                print(f"{len(done)} of {asked.kills}: {victim}: 0 lost, 0 duplicate, {kills.sender.sent:,} records"
                      f" ({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip
        finally:
            run.end()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
