"""`gauss worker` as a process, with Spark: killed and continued by another, stopped in good order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.fleet import WorkerProcess, World
from helpers.waiting import wait_until


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
    store = f"sqlite:///{tmp_path}/fleet.db"
    world.ids(0, 300)
    world.want()
    workers.append(WorkerProcess(tmp_path, "first", store, spark=True))
    world.wait_rows(300)
    world.ids(300, 3_000)
    wait_until(lambda: len(world.rows()) > 300)
    workers[0].end()
    workers.append(WorkerProcess(tmp_path, "second", store, spark=True))
    world.wait_rows(3_000)
    assert [each.epoch for each in world.store.leases.assignments(world.id)] == [2]
    process = workers[1].process
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert world.store.leases.assignments(world.id) == []
    assert all(each.worker_id is None for each in world.store.claims.list(world.id))
    assert sum(each.rows for each in world.store.claims.list(world.id)) == 3_000
