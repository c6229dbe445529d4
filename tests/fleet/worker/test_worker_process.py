"""`gauss worker` as a process, with Spark: killed and continued by another, stopped in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fleet.worker.conftest import World
from helpers.waiting import wait_until


class WorkerProcess:
    """A `gauss worker` on the store of a world."""

    def __init__(self, folder: Path, name: str) -> None:
        command = [sys.executable, "-m", "gauss.cli.main", "worker", "--store", f"sqlite:///{folder}/fleet.db"]
        command += ["--lease-ttl", "6s", "--reconcile-every", "500ms", "--data-dir", str(folder / name)]
        environment = {**os.environ, "GAUSS_KEY_FILE": str(folder / "fleet.key")}
        with (folder / f"{name}.log").open("wb") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def end(self) -> None:
        """Kills it with all that it has started."""
        started = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.kill()
        for each in started:
            if each.is_running():
                each.kill()
        self.process.wait()


@pytest.fixture
def workers() -> Iterator[list[WorkerProcess]]:
    found: list[WorkerProcess] = []
    yield found
    for each in found:
        each.end()


@pytest.mark.spark
@pytest.mark.fault
def test_a_killed_worker_is_followed_by_another_and_no_row_is_lost_or_doubled(
    world: World, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    world.ids(0, 300)
    world.want()
    workers.append(WorkerProcess(tmp_path, "first"))
    world.wait_rows(300)
    world.ids(300, 3_000)
    wait_until(lambda: len(world.rows()) > 300)
    workers[0].end()
    workers.append(WorkerProcess(tmp_path, "second"))
    world.wait_rows(3_000)
    assert [each.epoch for each in world.store.leases.assignments(world.id)] == [2]
    process = workers[1].process
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert world.store.leases.assignments(world.id) == []
    assert all(each.worker_id is None for each in world.store.claims.list(world.id))
    assert sum(each.rows for each in world.store.claims.list(world.id)) == 3_000
