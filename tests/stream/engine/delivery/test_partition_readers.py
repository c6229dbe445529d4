"""Positions of processors and sinks as committed offsets of Kafka groups."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from gauss.clients.engine.positions import place_key
from gauss.clients.engine.task_messages import Claim, Next, Publish
from gauss.clients.kafka.admin import Admin
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import engine_here
from helpers.kafka import SecuredBroker, produce
from helpers.run import free_port
from helpers.waiting import wait_until


def config(storages: dict[str, dict[str, Any]], *processors: dict[str, Any]) -> dict[str, Any]:
    topics = [{"name": name, "storage": "kafka", "storage_config": given} for name, given in storages.items()]
    local = {"name": "local", "storage": "memory", "storage_config": {"storage_size": 100}}
    return {"topics": [*topics, local], "processors": list(processors)}


def fill(kafka: SecuredBroker, topic: str, *counts: int) -> None:
    """Writes so many records to each partition."""
    for partition, count in enumerate(counts):
        produce(kafka.settings, topic, [(b"%d" % number, None, []) for number in range(count)], partition=partition)


def shown(kafka: SecuredBroker, group: str, topic: str) -> dict[int, int]:
    found = Admin(kafka.settings).committed(group, topic, [0, 1])
    return {number: each.offset for number, each in found.items()}


def test_each_kafka_source_of_a_union_has_its_offsets_in_the_group(kafka: SecuredBroker, tmp_path: Path) -> None:
    storages = {name: kafka.topic(partitions=2) for name in ("a", "b")}
    name = f"union-{storages['a']['topic']}"
    sources = {"sources": [{"topic": "a"}, {"topic": "b"}, {"topic": "other"}]}
    made = config(storages, {"name": name, "plugin": "union", "target": {"topic": "local"}, "config": sources})
    made["topics"].append({"name": "other", "storage": "memory", "storage_config": {"storage_size": 100}})
    with engine_here(tmp_path, made) as engine:
        fill(kafka, storages["a"]["topic"], 3, 1)
        fill(kafka, storages["b"]["topic"], 0, 2)
        for topic, ends in {"a": (3, 1), "b": (0, 2)}.items():
            for number, end in enumerate(ends):
                place = engine.places[place_key(topic, number)]
                wait_until(lambda: place.version() == end)  # noqa: B023
        publish_all(engine, name)
        wait_until(lambda: shown(kafka, f"gauss.{name}", storages["a"]["topic"]) == {0: 3, 1: 1})
        wait_until(lambda: shown(kafka, f"gauss.{name}", storages["b"]["topic"]) == {0: 0, 1: 2})


def publish_all(engine: Engine, processor: str) -> None:
    """Publishes an epoch that has read everything, and wrote nothing."""
    claimed = engine.act(Claim(processor, "", [], ["local"], job=engine.grants.new_job()))
    granted = engine.act(Next({processor: claimed.generation}, 1_000, 1 << 30))
    grant = granted.grants[processor]
    engine.act(Publish(processor, claimed.generation, "", grant.epoch, grant.end, {"local": []}))


def test_sink_shows_its_position_as_soon_as_it_has_one(kafka: SecuredBroker, tmp_path: Path) -> None:
    storage, ports = kafka.topic(partitions=2), [free_port() for _ in range(2)]
    resumed, served = (
        {
            "name": name,
            "plugin": "tcp-sink",
            "source": {"topic": "t", "read": "offset", "group": f"{name}-{storage['topic']}"},
            "config": {"port": port, "start": start, "output": {"framing": "newline", "delimiter": "\n"}},
        }
        for name, port, start in zip(("resumed", "served"), ports, ("resume", "earliest"), strict=True)
    )
    with engine_here(tmp_path, config({"t": storage}, resumed, served)) as engine:
        fill(kafka, storage["topic"], 3, 2)
        wait_until(lambda: engine.topics["t"].version() == 5)
        wait_until(lambda: shown(kafka, f"resumed-{storage['topic']}", storage["topic"]) == {0: 0, 1: 0})
        assert shown(kafka, f"served-{storage['topic']}", storage["topic"]) == {}  # nobody is connected
        for name, port in zip(("resumed", "served"), ports, strict=True):
            with socket.create_connection(("127.0.0.1", port)) as client, client.makefile() as lines:
                assert len([lines.readline() for _ in range(5)]) == 5
                group = f"{name}-{storage['topic']}"
                wait_until(lambda: shown(kafka, group, storage["topic"]) == {0: 3, 1: 2})  # noqa: B023
