"""A worker beside a store alone: what it takes, and when it ends."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.slots import Wanted
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.instance import Surroundings
from gauss.fleet.worker.runner import SparkRunner
from gauss.fleet.worker.worker import FleetWorker, Settings
from gauss.model.errors import Unavailable
from helpers.fleet import LocalRunner


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FleetStore]:
    made = FleetStore(tmp_path / "fleet.db", tmp_path / "fleet.key")
    yield made
    made.close()


@pytest.fixture
def pipeline(store: FleetStore) -> str:
    made = store.pipelines.create("orders", "", "me").id
    store.pipelines.change_state(made, "me", desired="started", replicas=2)
    return made


def worker_of(store: FleetStore, runner: LocalRunner) -> FleetWorker:
    return FleetWorker(Surroundings(store, runner, Clusters(), 6_000), Settings(6_000, 300))


@pytest.mark.usefixtures("pipeline")
def test_a_pipeline_that_is_started_while_slots_are_taken_waits_for_the_next_reconcile(store: FleetStore) -> None:
    worker = worker_of(store, LocalRunner())
    worker._acquire({}, 10)
    assert store.leases.assignments() == []
    assert worker._keeper.held() == []


def test_a_slot_whose_instance_can_not_begin_is_released(
    store: FleetStore, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = worker_of(store, LocalRunner())

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("gauss.fleet.worker.instance.Instance.start", refuse)
    with pytest.raises(RuntimeError):
        worker._acquire({pipeline: Wanted(2, 0)}, 10)
    assert store.leases.assignments() == []
    assert worker._keeper.held() == []


@pytest.mark.usefixtures("pipeline")
def test_a_worker_whose_spark_has_ended_leaves_its_slots_to_others_and_ends(store: FleetStore) -> None:
    runner = LocalRunner()
    worker, raised = worker_of(store, runner), list[Exception]()

    def run() -> None:
        try:
            worker.run(threading.Event())
        except Unavailable as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not store.leases.assignments():
        thread.join(0.05)
    runner.is_alive = False
    thread.join(30)
    assert not thread.is_alive() and len(raised) == 1
    assert store.leases.assignments() == []
    assert store.workers.list() == []


def test_a_jvm_that_hangs_or_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another process in its place: a hanging JVM would take minutes."""
    with subprocess.Popen(["sleep", "600"]) as process:
        runner = SparkRunner(SimpleNamespace(context=None, process=process), 4)  # type: ignore[arg-type]
        runner.check()
        runner._jobs[1] = time.monotonic()
        runner.check()
        monkeypatch.setattr("gauss.fleet.worker.runner.HANG_SECONDS", 0.0)
        with pytest.raises(Unavailable, match="a job of Spark has not ended"):
            runner.check()
        assert process.wait(20) != 0, "it was killed, so that nobody waits for its answers"
        runner._jobs.clear()
        with pytest.raises(Unavailable, match="Spark has ended"):
            runner.check()
