"""A pipeline from a real topic to a real table, and workers that run it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer
from gauss.clients.kafka.admin import Admin
from gauss.fleet.config.stored import TO_STORE
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Kind
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.instance import Surroundings
from gauss.fleet.worker.range_work import RangeResult, RangeWork
from gauss.fleet.worker.runner import Failure, Runner, attempt
from gauss.fleet.worker.worker import FleetWorker, Settings
from gauss.model.errors import from_dict
from helpers.kafka import SecuredBroker, settings
from helpers.waiting import wait_until

PARTITIONS = 3


class LocalRunner:
    """Runs ranges in this process: the same function as a task of Spark."""

    before: Callable[[Sequence[RangeWork]], None] | None = None
    """Called with the ranges before they are inserted."""
    after: Callable[[Sequence[RangeWork]], None] | None = None
    """Called after they are inserted; what it raises is the answer of all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def run(self, _pipeline_id: str, works: Sequence[RangeWork]) -> list[RangeResult | Failure]:
        with self._lock:  # what a process keeps open is for one thread
            if self.before is not None:
                self.before(works)
            found = [attempt(work) for work in works]
        if self.after is not None:
            try:
                self.after(works)
            except Exception as error:
                return [Failure(error)] * len(works)  # type: ignore[arg-type]
        return [Failure(from_dict(each)) if isinstance(each, dict) else each for each in found]


class World:
    """One started pipeline."""

    def __init__(self, store: FleetStore, kafka: SecuredBroker, clickhouse: EmbeddedServer) -> None:
        self.store = store
        self.topic = f"orders{time.monotonic_ns()}"
        self.brokers = kafka.broker.address
        Admin(settings(self.brokers)).create(self.topic, PARTITIONS)
        endpoint = clickhouse.endpoint
        self.endpoint = endpoint
        self.id = store.pipelines.create("orders", "", "test").id
        self.put(Kind.KAFKA, {"brokers": self.brokers, "topic": self.topic})
        dsn = f"http://{endpoint.user}:{endpoint.password}@{endpoint.host}:{endpoint.port}"
        self.clickhouse = {"dsn": dsn, "table": self.topic, "batchSize": 50, "flushIntervalMs": 50}
        self.put(Kind.CLICKHOUSE, self.clickhouse)
        self.put(Kind.MAPPING, {"columns": [{"fieldPath": "id", "column": "id", "type": "Int64"}], "orderBy": ["id"]})
        self.workers: list[tuple[FleetWorker, threading.Event, threading.Thread]] = []

    def put(self, kind: Kind, document: dict[str, Any]) -> None:
        self.store.configs.change(self.id, kind, "test", lambda old: TO_STORE[kind](document, old))

    def want(self, desired: Any = "started", replicas: int = 1) -> None:
        self.store.pipelines.change_state(self.id, "test", desired=desired, replicas=replicas)

    def produce(self, *values: bytes | None) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.brokers})
        for number, value in enumerate(values):
            producer.produce(self.topic, value, partition=number % PARTITIONS)
        producer.flush()

    def ids(self, first: int, stop: int) -> None:
        self.produce(*(json.dumps({"id": number}).encode() for number in range(first, stop)))

    def rows(self) -> list[int]:
        client = connect(self.endpoint)
        try:
            query = f"SELECT id FROM {self.topic} ORDER BY id"
            exists = client.command(f"EXISTS TABLE {self.topic}")
            return [row[0] for row in client.query(query).result_rows] if exists else []
        finally:
            client.close()

    def work(self, runner: Runner, **given: Any) -> FleetWorker:
        """Starts a worker."""
        around = Surroundings(self.store, runner, Clusters(), 6_000)
        worker = FleetWorker(around, Settings(6_000, 300, **given))
        stop = threading.Event()
        thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
        thread.start()
        self.workers.append((worker, stop, thread))
        return worker

    def stop(self) -> None:
        for _, stop, _ in self.workers:
            stop.set()
        for _, _, thread in self.workers:
            thread.join(60)
        self.workers.clear()

    def wait_rows(self, count: int) -> None:
        wait_until(lambda: len(self.rows()) >= count, what=lambda: (self.store.claims.list(self.id), self.reasons()))
        assert self.rows() == sorted(set(self.rows())), "a row is there twice"
        assert len(self.rows()) == count

    def reasons(self) -> list[str]:
        return [each.reason for each in self.store.leases.assignments(self.id)]


@pytest.fixture
def world(kafka: SecuredBroker, clickhouse: EmbeddedServer, tmp_path: Path) -> Iterator[World]:
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "fleet.key")
    made = World(store, kafka, clickhouse)
    yield made
    made.stop()
    store.close()
