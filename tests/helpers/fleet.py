"""A pipeline of a fleet from a real topic to a real table, and the workers that run it: in this process or outside."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from gauss.clients.clickhouse.connect import connect
from gauss.clients.endpoint import Endpoint
from gauss.clients.kafka.admin import Admin
from gauss.fleet.config.stored import TO_STORE
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Kind
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.instance import Surroundings
from gauss.fleet.worker.range_work import RangeWork
from gauss.fleet.worker.runner import Answer, Failure, Runner, attempt_all
from gauss.fleet.worker.worker import FleetWorker, Settings
from gauss.model.errors import GaussError, Unavailable, from_dict
from helpers.kafka import settings
from helpers.waiting import wait_until

PARTITIONS = 3
TTL_SECONDS = 6.0
"""The shortest that a worker accepts."""
TESTS = Path(__file__).parents[1]


class LocalRunner:
    """Runs ranges in this process: the same function as a task of Spark."""

    before: Callable[[Sequence[RangeWork]], None] | None = None
    """Called with the ranges before they are inserted."""
    after: Callable[[Sequence[RangeWork]], None] | None = None
    """Called after they are inserted; what it raises is the answer of all."""

    is_alive = True

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def check(self) -> None:
        if not self.is_alive:
            raise Unavailable("it has ended")

    def run(self, _pipeline_id: str, works: Sequence[RangeWork], *, is_trial: bool = False) -> list[Answer]:  # noqa: ARG002
        with self._lock:  # what a process keeps open is for one thread
            if self.before is not None:
                self.before(works)
            found = attempt_all(works)
        if self.after is not None:
            try:
                self.after(works)
            except Exception as error:
                return [Failure(error)] * len(works)  # type: ignore[arg-type]
        return [Failure(from_dict(each)) if isinstance(each, dict) else each for each in found]


class World:
    """One pipeline with a topic and a table of its own."""

    def __init__(self, store: FleetStore, brokers: str, endpoint: Endpoint, *, partitions: int = PARTITIONS) -> None:
        self.store, self.brokers, self.endpoint = store, brokers, endpoint
        self.partitions = partitions
        self.topic = f"orders{time.monotonic_ns()}"
        Admin(settings(self.brokers)).create(self.topic, partitions)
        self.id = store.pipelines.create("orders", "", "test").id
        self.put(Kind.KAFKA, {"brokers": self.brokers, "topic": self.topic})
        dsn = f"http://{endpoint.user}:{endpoint.password}@{endpoint.host}:{endpoint.port}"
        self.clickhouse = {"dsn": dsn, "table": self.topic, "batchSize": 50, "flushIntervalMs": 50}
        self.put(Kind.CLICKHOUSE, self.clickhouse)
        self.put(Kind.MAPPING, {"columns": [{"fieldPath": "id", "column": "id", "type": "Int64"}], "orderBy": ["id"]})
        self.workers: list[tuple[FleetWorker, threading.Event, threading.Thread]] = []
        self.sent = 0

    def put(self, kind: Kind, document: dict[str, Any]) -> None:
        self.store.configs.change(self.id, kind, "test", lambda old: TO_STORE[kind](document, old))

    def want(self, desired: Any = "started", replicas: int = 1) -> None:
        self.store.pipelines.change_state(self.id, "test", desired=desired, replicas=replicas)

    def produce(self, *values: bytes | None) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.brokers, "enable.idempotence": True})
        for number, value in enumerate(values):
            producer.produce(self.topic, value, partition=number % self.partitions)
        assert producer.flush(60) == 0

    def ids(self, first: int, stop: int) -> None:
        self.produce(*(json.dumps({"id": number}).encode() for number in range(first, stop)))
        self.sent = stop

    def more(self, count: int) -> None:
        """The next numbers."""
        self.ids(self.sent, self.sent + count)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        client = connect(self.endpoint)
        try:
            return [tuple(row) for row in client.query(text.format(table=self.topic)).result_rows]
        finally:
            client.close()

    def rows(self) -> list[int]:
        client = connect(self.endpoint)
        try:
            query = f"SELECT id FROM {self.topic} ORDER BY id"
            exists = client.command(f"EXISTS TABLE {self.topic}")
            return [row[0] for row in client.query(query).result_rows] if exists else []
        finally:
            client.close()

    def work(self, runner: Runner, **given: Any) -> FleetWorker:
        """Starts a worker in this process."""
        around = Surroundings(self.store, runner, Clusters(), int(TTL_SECONDS * 1000))
        worker = FleetWorker(around, Settings(int(TTL_SECONDS * 1000), 300, **given))
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

    def wait_rows(self, count: int, seconds: float = 60.0) -> None:
        wait_until(lambda: len(self.rows()) >= count, seconds, what=lambda: (self.claims(), self.reasons()))
        assert self.rows() == sorted(set(self.rows())), "a row is there twice"
        assert len(self.rows()) == count

    def wait_sent(self, seconds: float = 120.0) -> None:
        """Waits until all numbers are rows; each must be there once."""

        def counted() -> int:
            try:
                return len(self.rows())
            except GaussError:  # its server is away
                return 0

        wait_until(lambda: counted() >= self.sent, seconds, what=lambda: (counted(), self.claims(), self.reasons()))
        found = self.rows()
        assert found == list(range(self.sent)), f"{len(found) - len(set(found))} rows came twice of {len(found)}"

    def claims(self) -> Any:
        return self.store.claims.list(self.id)

    def owners(self) -> dict[int, str]:
        """The worker that holds each slot."""
        return {each.slot: each.worker_id for each in self.store.leases.assignments(self.id)}

    def reasons(self) -> list[str]:
        return [each.reason for each in self.store.leases.assignments(self.id)]


class WorkerProcess:
    """A worker as a process: `gauss worker`, or without Spark `helpers.fleet_worker`, which runs the same ranges."""

    def __init__(self, folder: Path, name: str, store: str, *options: str, spark: bool = False, skew: int = 0) -> None:
        """`skew`: seconds by which the wall clock of a process without Spark is wrong."""
        command = [sys.executable, "-m", "gauss.cli.main", "worker"]
        if not spark:
            command = [sys.executable, "-m", "helpers.fleet_worker", str(skew)]
        command += ["--store", store, "--lease-ttl", "6s", "--reconcile-every", "500ms", "--json"]
        command += ["--data-dir", str(folder / name), *options]
        paths = {"GAUSS_KEY_FILE": str(folder / "fleet.key"), "PYTHONPATH": str(TESTS)}
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, env={**os.environ, **paths}, stdout=subprocess.PIPE, stderr=output)
        self.id = ""

    def wait_up(self) -> str:
        """The id of the worker, once it is up."""
        assert self.process.stdout is not None
        if not self.id:
            line = self.process.stdout.readline()
            assert line, self.log.read_text()
            self.id = json.loads(line)["worker"]
        return self.id

    def end(self) -> None:
        """Kills it with all that it has started."""
        started = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.kill()
        for each in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
