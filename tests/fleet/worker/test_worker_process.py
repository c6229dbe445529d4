"""`gauss worker` as a process, with Spark: its JVM is killed, another one goes on, servers hang, it is stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from helpers.fleet import WorkerProcess, World
from helpers.proxy import Proxy
from helpers.waiting import wait_until


@pytest.fixture
def workers() -> Iterator[list[WorkerProcess]]:
    found: list[WorkerProcess] = []
    yield found
    for each in found:
        each.end()


@pytest.mark.spark
@pytest.mark.fault
def test_a_worker_ends_with_its_jvm_and_another_one_loses_and_doubles_no_row(
    world: World, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    store = f"sqlite:///{tmp_path}/fleet.db"
    world.ids(0, 300)
    world.want()
    workers.append(WorkerProcess(tmp_path, "first", store, spark=True))
    world.wait_rows(300)
    world.ids(300, 3_000)
    wait_until(lambda: len(world.rows()) > 300)
    started = psutil.Process(workers[0].process.pid).children(recursive=True)
    (java,) = (each for each in started if "java" in each.name())
    java.kill()
    assert workers[0].process.wait(30) != 0
    assert "Spark has ended" in workers[0].log.read_text()
    assert world.store.leases.assignments() == [], "its slots are released at once"
    workers.append(WorkerProcess(tmp_path, "second", store, spark=True))
    world.wait_rows(3_000)
    assert [each.epoch for each in world.store.leases.assignments(world.id)] == [2]
    hold_up(world)
    process = workers[1].process
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert world.store.leases.assignments(world.id) == []
    assert all(each.worker_id is None for each in world.store.claims.list(world.id))
    assert sum(each.rows for each in world.store.claims.list(world.id)) == 3_600


def hold_up(world: World) -> None:
    """Beside a pipeline with many partitions whose ClickHouse takes requests and answers none."""
    with Proxy(world.endpoint.port, host="127.0.0.1") as proxy:
        held_up = World(world.store, world.brokers, replace(world.endpoint, port=proxy.port), partitions=16)
        held_up.want()
        held_up.more(160)
        held_up.wait_sent()
        proxy.is_mute = True
        held_up.more(1_600)
        wait_until(lambda: any(each.pending_to for each in held_up.claims()), what=held_up.claims)
        first = len(world.rows())
        for stop in (first + 300, first + 600):
            world.ids(stop - 300, stop)
            world.wait_rows(stop, seconds=15.0)
        assert any(each.pending_to for each in held_up.claims()), "it hangs still"
        proxy.is_mute = False
        held_up.wait_sent()
        world.store.pipelines.delete(held_up.id, "test")
