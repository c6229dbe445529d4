"""A run between Kafka topics that meets odd records, lost rights, deleted topics and a second run in turn."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from helpers.kafka import PASSWORDS, SecuredBroker, granted, produce, topic_name
from helpers.kafka_kills import Received, Sender
from helpers.run import Run
from helpers.waiting import wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
MOST_BYTES = 100_000
"""`max.message.bytes` of the topics."""
ALONE_BYTES = 72
"""Size of a batch with one record beside the record's data."""
TOPIC = """
[[topics]]
name = "{name}"
storage = "kafka"
storage_config = {{ brokers = ["{broker}"], topic = "{topic}", partitions = 2, request_timeout = "10s",
    security_protocol = "sasl_plaintext", username = "bob", password = "{password}",
    topic_config = {{ "max.message.bytes" = "{most}" }} }}
"""
PIPELINE = """
[spark]
master = "local[2]"

[[formats]]
name = "json"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }

[[processors]]
name = "copy"
plugin = "expression"
parallelism = 1
source = { topic = "given", read = "offset" }
target = { topic = "made" }
config = { input = { format = "json" }, output = { format = "json" }, program = "{n}" }

[[processors]]
name = "pass"
plugin = "passthrough"
source = { topic = "given", read = "offset" }
target = { topic = "passed" }
"""


class Consumer(threading.Thread):
    """Somebody else who reads a topic all the time."""

    def __init__(self, settings: KafkaSettings, topic: str, isolation: str) -> None:
        super().__init__(daemon=True)
        conf = {**client_conf(settings), "group.id": f"{topic}-{isolation}", "auto.offset.reset": "earliest"}
        self._consumer = confluent_kafka.Consumer({**conf, "isolation.level": isolation})
        self._consumer.subscribe([topic])
        self._ended = threading.Event()
        self.numbers: Counter[int] = Counter()

    def run(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(100, 0.1):
                if message.error() is None:
                    self.numbers[json.loads(message.value() or b"")["n"]] += 1

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._consumer.close()


def states(run: Run) -> dict[str, Any]:
    return {row["name"]: row for row in run.api("/api/processors")["processors"]}


def said(run: Run, words: str, *names: str) -> Callable[[], bool]:
    """Whether the states of processors contain some words."""
    return lambda: all(words in states(run)[name]["detail"] for name in names)


def data_of(settings: KafkaSettings, topic: str) -> list[bytes]:
    return Received(settings, topic).raw()


def test_rights_taken_away_topics_deleted_and_a_second_run_lose_and_double_nothing(
    gauss: Make, kafka: SecuredBroker
) -> None:
    settings, admin = kafka.settings, Admin(kafka.settings)
    names = {name: topic_name() for name in ("given", "made", "passed")}
    given, made, passed = names.values()
    broker = f"127.0.0.1:{kafka.ports['SASL_PLAINTEXT']}"
    topics = "".join(
        TOPIC.format(name=name, topic=topic, broker=broker, password=PASSWORDS["bob"], most=MOST_BYTES)
        for name, topic in names.items()
    )
    all_rights: dict[str, Any] = {"groups": True, "ids": True}

    def has(topic: str, count: int) -> Callable[[], bool]:
        return lambda: len(data_of(settings, topic)) >= count

    with granted(kafka, *names.values(), **all_rights):
        run = gauss(PIPELINE + topics).start()
        others = [Consumer(settings, made, level) for level in ("read_committed", "read_uncommitted")]
        for other in others:
            other.start()
        sender = Sender(settings, given)
        sender.send(300)
        large = json.dumps({"n": -1, "pad": ""}).encode()
        large = large.replace(b'""', b'"%s"' % (b"x" * (MOST_BYTES - ALONE_BYTES - len(large))))
        produce(settings, given, [(large, None, [])])
        produce(settings, given, [(None, b"k", []), (None, None, []), (b"", None, []), (b"", b"", [])])
        wait_until(has(made, 301), 120, run.state)
        wait_until(has(passed, 305), 120, run.state)
        assert Counter(data_of(settings, passed)) == Counter(data_of(settings, given))
        wait_until(lambda: states(run)["copy"]["dead"] == 4, 30, run.state)  # json needs more than zero bytes

    with granted(kafka, given, **all_rights):
        sender.send(300)
        wait_until(said(run, "AUTHORIZATION_FAILED", "copy", "pass"), 60, run.state)

    with granted(kafka, *names.values(), **all_rights):
        wait_until(has(made, 601), 120, run.state)
        wait_until(has(passed, 605), 120, run.state)
        numbers = Counter([-1, *range(600)])
        assert Counter(Received(settings, made).numbers()) == numbers
        assert Counter(data_of(settings, passed)) == Counter(data_of(settings, given))
        wait_until(lambda: others[0].numbers == numbers, 30, lambda: others[0].numbers - numbers)
        assert not numbers - others[1].numbers, "who reads uncommitted records sees these, and perhaps others"
        for other in others:
            other.end()

        for topic in (made, passed):
            admin.delete(topic)
        sender.send(200)
        wait_until(said(run, "Unknown topic", "copy", "pass"), 60, run.state)
        for topic in (made, passed):
            admin.create(topic, 2)
        wait_until(has(made, 200), 120, run.state)
        wait_until(has(passed, 200), 120, run.state)
        for topic in (made, passed):
            assert Received(settings, topic).numbers() == list(range(600, 800))
        wait_until(lambda: run.api("/api/health")["status"] == "ready", 60, run.state)

        second = gauss(PIPELINE + topics).start()
        wait_until(has(made, 200 + 801), 120, second.state)  # it begins at the oldest record
        sender.send(100)
        wait_until(has(made, 200 + 801 + 100), 120, second.state)
        wait_until(said(run, "fenced: another run", "copy"), 60, run.state)
        wait_until(lambda: states(run)["copy"]["state"] == "failed", 60, run.state)
        assert Counter(Received(settings, made).numbers()) == Counter([-1, *range(900), *range(600, 800)])
        assert states(second)["copy"]["failures"] == 0
