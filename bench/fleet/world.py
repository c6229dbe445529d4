"""A store, a broker and a ClickHouse for workers that are measured, and these workers as processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.kafka import jars
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from gauss.fleet.config.stored import TO_STORE
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Kind


class FleetWorld(NamedTuple):
    folder: Path
    store: FleetStore
    settings: KafkaSettings
    clickhouse: EmbeddedServer

    def pipeline(self, topic: str, columns: dict[str, str], *, partitions: int, replicas: int = 1, **more: Any) -> str:
        """The id of a started pipeline. `more`: of its ClickHouse config."""
        Admin(self.settings).create(topic, partitions)
        pipeline = self.store.pipelines.create(topic, "", "bench").id
        endpoint = self.clickhouse.endpoint
        dsn = f"http://{endpoint.user}:{endpoint.password}@{endpoint.host}:{endpoint.port}"
        mapped = [{"fieldPath": name, "column": name, "type": kind} for name, kind in columns.items()]
        for kind, document in (
            (Kind.KAFKA, {"brokers": list(self.settings.brokers), "topic": topic}),
            (Kind.CLICKHOUSE, {"dsn": dsn, "table": topic.replace("-", "_"), **more}),
            (Kind.MAPPING, {"columns": mapped, "orderBy": [next(iter(columns))]}),
        ):
            self._put(pipeline, kind, document)
        self.store.pipelines.change_state(pipeline, "bench", desired="started", replicas=replicas)
        return pipeline

    def _put(self, pipeline: str, kind: Kind, document: dict[str, Any]) -> None:
        self.store.configs.change(pipeline, kind, "bench", lambda old: TO_STORE[kind](document, old))

    def rows(self, pipeline: str) -> int:
        """Rows that were committed."""
        return sum(each.rows for each in self.store.claims.list(pipeline))

    def counted(self, topic: str) -> int:
        with connect(self.clickhouse.endpoint) as client:
            return int(client.query(f"SELECT count() FROM {topic.replace('-', '_')}").result_rows[0][0])

    def running(self) -> int:
        return sum(each.state == "running" for each in self.store.leases.assignments())

    @contextlib.contextmanager
    def worker(self, name: str, *options: str) -> Iterator[psutil.Process]:
        command = [sys.executable, "-m", "gauss.cli.main", "worker", "--store", f"sqlite:///{self.folder}/fleet.db"]
        command += ["--data-dir", str(self.folder / name), *options]
        environment = {**os.environ, "GAUSS_KEY_FILE": str(self.folder / "key")}
        with (self.folder / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def fleet_world(folder: Path) -> Iterator[FleetWorld]:
    jars.class_path()
    with ensure("kafka", folder / "kafka") as kafka, ensure("clickhouse", folder / "clickhouse") as clickhouse:
        (address,) = kafka.endpoint.shown.values()
        settings = KafkaSettings.model_validate({"brokers": [address], "request_timeout": "60s"})
        store = FleetStore(folder / "fleet.db", folder / "key")
        yield FleetWorld(folder, store, settings, clickhouse)
        store.close()


def family(worker: psutil.Process) -> list[psutil.Process]:
    return [worker, *worker.children(recursive=True)]


def cpu_of(worker: psutil.Process) -> float:
    """Of all its processes, those that have ended included."""
    return sum(sum(each.cpu_times()[:4]) for each in family(worker))
