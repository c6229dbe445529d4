"""A real engine process over a data directory, and driver processes."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from gauss.clients.engine.client import EngineClient
from gauss.config.spec import Pipeline
from gauss.model.paths import DataDir
from gauss.process.ready import read_ready, spawn
from gauss.stream.flowtest.bench import kill
from helpers.engine_process import EngineParent
from helpers.run import free_port
from helpers.waiting import wait_until


class EngineRun:
    """An engine without control, as a driver needs it."""

    def __init__(self, parent: EngineParent, root: Path, config: dict[str, Any]) -> None:
        self._parent = parent
        self.data_dir = DataDir(root)
        for folder in (self.data_dir.run, self.data_dir.logs, self.data_dir.cache):
            folder.mkdir(parents=True, exist_ok=True)
        self._give(config)
        endpoint = f"grpc://127.0.0.1:{free_port()}"
        self.data_dir.flight_json.write_text(json.dumps({"endpoint": endpoint, "token": secrets.token_hex(8)}))
        self.start()
        self.client = EngineClient.from_file(self.data_dir.flight_json)

    def _give(self, config: dict[str, Any]) -> None:
        self.pipeline, root = Pipeline.model_validate(config), str(self.data_dir.root)
        given = {**self.pipeline.model_dump(mode="json"), "base_dir": root, "data_dir": root}
        self.data_dir.pipeline_json.write_text(json.dumps(given))

    def change(self, config: dict[str, Any]) -> None:
        """Restarts the engine with another config."""
        self.stop()
        self._give(config)
        self.start()

    def processor(self, name: str) -> dict[str, Any]:
        """A processor's row of `gauss processors ls`."""
        found = self.client.command("processors.ls")["processors"]
        return next(row for row in found if row["name"] == name)

    def start(self) -> None:
        self._pid = self._parent.start(self.data_dir.root)

    def kill(self) -> None:
        kill(self._pid)

    def stop(self) -> None:
        kill(self._pid, signal.SIGTERM)

    def send(self, topic: str, records: list[bytes]) -> None:
        batch = pa.RecordBatch.from_arrays([pa.array(records, pa.binary())], names=["data"])
        self.client.append(topic, [batch.cast(pa.schema([pa.field("data", pa.binary(), nullable=False)]))])

    def records(self, topic: str) -> list[bytes]:
        return [data for batch in self.client.scan(topic) for data in batch.column(2).to_pylist()]

    def wait_for(self, topic: str, count: int, seconds: float = 150.0) -> list[bytes]:
        """Waits for `count` records in the topic; returns them."""
        found: list[bytes] = []

        def enough() -> bool:
            found[:] = self.records(topic)
            return len(found) >= count

        wait_until(enough, seconds, lambda: f"{count} records in {topic}; found {len(found)}: {found[-20:]}")
        return found

    def wait_read(self, *processors: str, seconds: float = 300.0) -> None:
        """Waits until these processors have published the results of everything that was sent."""
        rows = [partial(self.processor, name) for name in processors]
        wait_until(
            lambda: all(row["behind"] == 0 and row["epoch"] >= 0 for row in (each() for each in rows)),
            seconds,
            lambda: [each() for each in rows],
        )


def spawn_driver_process(root: Path) -> subprocess.Popen[bytes]:
    """Starts a driver process; returns when it is ready."""
    process, ready = spawn([sys.executable, "-m", "gauss.stream.driver", str(root)], start_new_session=True)
    with os.fdopen(ready):
        found = read_ready(ready, 400)
    assert found.get("ready"), found
    return process


MakeEngine = Callable[[dict[str, Any]], EngineRun]


@pytest.fixture(scope="session")
def engine_parent() -> Iterator[EngineParent]:
    parent = EngineParent()
    yield parent
    parent.close()


def _engines(parent: EngineParent, folder: Path) -> Iterator[MakeEngine]:
    made: list[EngineRun] = []

    def make(config: dict[str, Any]) -> EngineRun:
        made.append(EngineRun(parent, folder / f"data{len(made)}", config))
        return made[-1]

    yield make
    for run in made:
        run.stop()


@pytest.fixture
def make_engine(engine_parent: EngineParent, tmp_path: Path) -> Iterator[MakeEngine]:
    yield from _engines(engine_parent, tmp_path)


@pytest.fixture(scope="module")
def make_shared_engine(engine_parent: EngineParent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeEngine]:
    """An engine for tests that may share topics."""
    yield from _engines(engine_parent, tmp_path_factory.mktemp("engine"))


class Drivers:
    """Starts driver processes; ends them and their children."""

    def __init__(self) -> None:
        self.made: list[subprocess.Popen[bytes]] = []

    def __call__(self, run: EngineRun) -> subprocess.Popen[bytes]:
        self.made.append(spawn_driver_process(run.data_dir.root))
        return self.made[-1]

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kills a driver, its JVM and its workers."""
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait()
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                pass


@pytest.fixture
def spawn_driver() -> Iterator[Drivers]:
    drivers = Drivers()
    yield drivers
    for process in drivers.made:
        drivers.end(process)
