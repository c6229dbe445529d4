"""Topics in Kafka in whole runs: every record once and in order of its key, whatever is killed."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from helpers.kafka import Given, SecuredBroker, cluster, produce, topic_name
from helpers.kafka_kills import KafkaKills, Received, Sender, Topics, pipeline
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]
VICTIMS = ("worker", "engine", "pause", "worker", "engine", "driver", *("worker", "engine", "worker") * 2)
"""A dozen: what takes longest to come back is killed least often."""
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_every_record_arrives_once_and_in_order_of_its_key_after_kills_of_all_parts(
    gauss: Make, kafka: SecuredBroker
) -> None:
    settings, topics = kafka.settings, Topics.new()
    run = gauss(pipeline(settings, *topics)).start()
    kills, chance = KafkaKills(run, settings, topics), random.Random(15)
    for victim in VICTIMS:
        kills.round(victim, chance)
    rows = kills.received.rows
    assert all(row["key"] == row["k"] for row in rows)
    admin = Admin(settings)
    wait_until(
        lambda: (
            sum(each.offset for each in admin.committed("gauss.copy", topics.given, [0, 1, 2]).values()) == len(rows)
        ),
        30,
        "the group's offsets",
    )


FIELDS = {
    "given": 'format = "json", key_field = "k"',
    "copied": 'format = "json", key_field = "k"',
    "back": 'format = "json", key_field = "k", partition_field = "p"',
    "table": 'format = "json", key = "@key"',
}
CROSSED = """
[spark]
master = "local[2]"

[[formats]]
name = "json"
plugin = "json"
config = {{ fields = [{{ name = "k", type = "string" }}, {{ name = "n", type = "int64" }},
    {{ name = "p", type = "int64" }}] }}

{topics}
[[topics]]
name = "local"
storage = "file"

[[topics]]
name = "again"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "given" }}
config = {{ port = {feed}, input = {{ framing = "newline" }} }}

[[processors]]
name = "pass"
plugin = "passthrough"
source = {{ topic = "given", read = "offset" }}
target = {{ topic = "copied" }}

[[processors]]
name = "query"
plugin = "sql"
source = {{ topic = "given", read = "offset" }}
target = {{ topic = "queried" }}
config = {{ input = {{ format = "json" }}, output = {{ format = "json" }},
    query = "SELECT k, n, p FROM input WHERE n % 2 = 0" }}

[[processors]]
name = "inward"
plugin = "expression"
source = {{ topic = "given", read = "offset" }}
target = {{ topic = "local" }}
config = {{ input = {{ format = "json" }}, program = "{{k, n, p}}" }}

[[processors]]
name = "outward"
plugin = "filter"
source = {{ topic = "local", read = "offset" }}
target = {{ topic = "back" }}
config = {{ input = {{ format = "json" }}, where = ".n >= 0" }}

[[processors]]
name = "ask"
plugin = "expression"
source = {{ topic = "given", read = "query", from = "-1h", to = {until} }}
target = {{ topic = "asked" }}
config = {{ input = {{ format = "json" }}, program = "{{k, n}}" }}

[[processors]]
name = "newest"
plugin = "expression"
source = {{ topic = "table", read = "snapshot" }}
target = {{ topic = "rows" }}
config = {{ input = {{ format = "json" }}, program = '{{k: .["@key"], n, p: .["@partition"]}}' }}

[[processors]]
name = "repeat"
plugin = "filter"
source = {{ topic = "table", read = "snapshot", every = "1s" }}
target = {{ topic = "again" }}
config = {{ input = {{ format = "json" }}, where = ".n > 4" }}

[[processors]]
name = "sink"
plugin = "tcp-sink"
source = {{ topic = "copied", read = "offset" }}
config = {{ port = {sink}, start = "earliest", output = {{ framing = "newline" }} }}
"""


def test_records_pass_between_kafka_sockets_queries_and_local_topics_once(gauss: Make, kafka: SecuredBroker) -> None:
    settings, feed, sink = kafka.settings, free_port(), free_port()
    names = {name: topic_name() for name in ("given", "copied", "queried", "back", "asked", "table", "rows")}
    brokers = json.dumps(settings.brokers)
    topics = "".join(
        f'[[topics]]\nname = "{name}"\nstorage = "kafka"\n'
        f'storage_config = {{ brokers = {brokers}, topic = "{topic}", partitions = 2, {FIELDS.get(name, "")} }}\n'
        for name, topic in names.items()
    )
    Admin(settings).create(names["table"], 2, config={"cleanup.policy": "compact"})
    for partition, keyed in enumerate(("a1 b2 a3 b", "c4 d5 c6")):
        rows: list[Given] = [
            (b'{"n": %s}' % each[1:] if each[1:] else None, each[:1], []) for each in keyed.encode().split()
        ]
        produce(settings, names["table"], rows, partition=partition)
    until = int(time.time() * 1000) + 3_600_000
    run = gauss(CROSSED.format(topics=topics, feed=feed, sink=sink, until=until)).start()
    lines = [json.dumps({"k": f"k{number % 5}", "n": number, "p": number % 2}) for number in range(6_000)]
    lines[10] = json.dumps({"k": "k0", "n": 10, "p": 2})  # there is no such partition
    for begin in range(0, len(lines), 2_000):
        with socket.create_connection(("127.0.0.1", feed)) as connection:
            connection.sendall("".join(f"{line}\n" for line in lines[begin : begin + 2_000]).encode())
        if begin == 2_000:
            wait_until(lambda: numbers(settings, names["queried"]), 120, run.state)
            run.kill(DRIVER)
    whole = range(6_000)
    placed = [number for number in whole if number != 10]
    wanted = {"given": whole, "copied": whole, "queried": range(0, 6_000, 2), "back": placed, "asked": whole}
    for name, expected in wanted.items():
        wait_until(lambda: len(numbers(settings, names[name])) >= len(expected), 180, run.state)  # noqa: B023
        assert numbers(settings, names[name]) == list(expected), name
    for name in ("given", "copied", "back"):
        received = Received(settings, names[name])
        assert received.look() and all(row["key"] == row["k"] for row in received.rows), name
    assert {row["partition"] - row["p"] for row in received.rows} == {0}
    wait_until(lambda: run.topic("_dead")["records"] == 1, 60, run.state)
    newest = Received(settings, names["rows"])
    wait_until(lambda: newest.look() >= 3, 60, run.state)
    wait_until(lambda: run.topic("again")["records"] >= 4, 60, run.state)  # two of each snapshot
    assert sorted((row["k"], row["n"], row["p"]) for row in newest.rows) == [("a", 3, 0), ("c", 6, 1), ("d", 5, 1)]
    with socket.create_connection(("127.0.0.1", sink)) as connection, connection.makefile() as sent:
        assert sorted(sent.readline().strip() for _ in lines) == sorted(lines)
    assert run.topic("local")["records"] == len(lines)
    assert "is now at offset" in run.cli("readers", "seek", "given/1", "pass", "end").stdout
    refused = run.cli("processors", "rebuild", "pass", "--yes", check=False)
    assert refused.returncode and 'topic "copied" is in an outside system' in refused.stderr


def numbers(settings: KafkaSettings, topic: str) -> list[int]:
    return Received(settings, topic).numbers()


def test_changes_of_a_topic_are_noticed_and_counted(gauss: Make, kafka: SecuredBroker) -> None:
    """Partitions are added, old records deleted, and the topic is deleted and created again."""
    settings, admin, (given, made) = kafka.settings, Admin(kafka.settings), (topic_name(), topic_name())
    run = gauss(pipeline(settings, given, made)).start()
    sender = Sender(settings, given)
    sender.send(700)
    wait_until(lambda: Received(settings, made).look() == 700, 120, run.state)
    admin.add_partitions(given, 5)
    Sender(settings, given, 700).send(700)
    wait_until(lambda: Received(settings, made).look() == 1_400, 120, run.state)
    assert {row["topic"] for row in readers(run)} >= {"given", "given/3", "given/4"}

    before = sum(row["missed"] for row in readers(run))
    with suspended(run.workers()):
        ends = admin.latest(given, range(5))
        Sender(settings, given, 1_400).send(50)
        wait_until(lambda: sum(admin.stable(given, range(5)).values()) == sum(ends.values()) + 50, 30)
        delete_records(settings, given, admin.latest(given, range(5)))
    wait_until(lambda: sum(row["missed"] for row in readers(run)) == before + 50, 120, run.state)

    admin.delete(given)
    admin.create(given, 2)
    Sender(settings, given, 1_400).send(100)
    wait_until(lambda: Received(settings, made).look() == 1_500, 180, run.state)
    assert numbers(settings, made) == list(range(1_500))


@contextmanager
def suspended(processes: Sequence[psutil.Process]) -> Iterator[None]:
    for each in processes:
        each.suspend()
    try:
        yield
    finally:
        for each in processes:
            each.resume()


def delete_records(settings: KafkaSettings, topic: str, ends: dict[int, int]) -> None:
    client = AdminClient({**client_conf(settings)})
    for done in client.delete_records([TopicPartition(topic, number, end) for number, end in ends.items()]).values():
        done.result()


def readers(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.api("/api/readers")["readers"]
    return [row for row in found if row["name"] == "copy"]


@pytest.mark.fault
def test_brokers_that_are_gone_for_a_while_cost_no_record(gauss: Make, tmp_path: Path) -> None:
    given, made = topic_name(), topic_name()
    with cluster(tmp_path / "brokers", 1) as (broker,):
        settings = KafkaSettings.model_validate({"brokers": [broker.address], "request_timeout": "10s"})
        run = gauss(pipeline(settings, given, made)).start()
        sender = Sender(settings, given)
        sender.send(3_000)
        # A single broker that is killed while it completes a transaction loses it by itself.
        wait_until(lambda: Received(settings, made).look() == sender.sent, 120, run.state)
        broker.kill()
        wait_until(lambda: "can't be reached" in json.dumps(run.api("/api/health")["reasons"]), 60, run.state)
        broker.start()
        sender.send(3_000)
        wait_until(lambda: Received(settings, made).look() >= sender.sent, 180, run.state)
        assert numbers(settings, made) == list(range(sender.sent))
        wait_until(lambda: run.api("/api/health")["status"] == "ready", 120, run.state)
