"""Engines that start though something that they were told is not so any more; in this process, without servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.instances import warm_pool
from gauss.dbstates.instances.manager import HELD, LOST, READY
from gauss.dbstates.settings import effective
from gauss.dbstates.store.layout import StateDir
from gauss.dbstates.store.metadata import now_ms
from gauss.model.errors import ConfigError, NotFound, Unavailable
from helpers.waiting import wait_until

Open = Callable[[], DatabaseEngine]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the store of the test; the engine before is closed."""
    engines: list[DatabaseEngine] = []

    def close() -> None:
        if engines:
            engines.pop().close()

    def open_() -> DatabaseEngine:
        close()
        engines.append(DatabaseEngine(StateDir.of(tmp_path)))
        return engines[-1]

    yield open_
    close()


@pytest.fixture
def without_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def add_instance(engine: DatabaseEngine, instance: str, status: str, runtime: str, ttl_secs: float = 3600) -> str:
    engine.metadata.insert(
        "instances", id=instance * 32, state="a" * 64, status=status, image="x", runtime=runtime, runtime_id="c" * 64,
        port=5, password="", job="", created_ms=now_ms(), used_ms=now_ms(), ttl_ms=round(ttl_secs * 1000),
    )  # fmt: skip
    return instance * 32


def test_a_backend_that_does_not_work_here_is_refused_and_not_used(opened: Open) -> None:
    engine = opened()
    if engine.statefs.name == "btrfs":
        pytest.skip("all backends work on this file system")
    with pytest.raises(ConfigError, match=r"snapshot\.backend.*btrfs"):
        engine.check_settings(effective({"snapshot.backend": "btrfs"}))
    chosen = engine.statefs.name
    engine.metadata.insert("settings", path="snapshot.backend", value='"btrfs"')  # as on the disk that it was on
    assert opened().statefs.name == chosen


def test_a_setting_that_is_no_longer_valid_is_not_used(opened: Open) -> None:
    engine = opened()
    engine.metadata.insert("settings", path="no.such", value="1")
    engine.metadata.insert("settings", path="instances.ttlSecs", value="7")
    assert opened().settings().instances.ttlSecs == 7


@pytest.mark.usefixtures("without_podman")
def test_instances_of_a_runtime_that_is_away_hold_up_nothing(opened: Open) -> None:
    engine = opened()
    kept = add_instance(engine, "1", READY, "container")
    held = add_instance(engine, "2", HELD, "container")
    expired = add_instance(engine, "3", READY, "container", ttl_secs=0.1)
    other = add_instance(engine, "4", READY, "process", ttl_secs=0.1)
    with pytest.raises(Unavailable, match="no container runtime"):
        engine.runtime("container")
    engine = opened()
    engine.start()
    wait_until(lambda: other not in {row["id"] for row in engine.instances.rows()}, what="the others expire")
    wait_until(lambda: len(engine.instances.rows(LOST)) == 2, what="those that can't be removed are not shown")
    assert {row["id"] for row in engine.instances.rows(LOST)} == {held, expired}
    (row,) = engine.instances.rows(READY)
    assert (row["id"], engine.instances.shown(row)["status"]) == (kept, "stopped")


def test_an_instance_that_no_client_was_told_of_is_removed_with_its_job(opened: Open) -> None:
    """The engine was killed after it had handed the instance out, and before it had stored the end of the job."""
    engine = opened()
    engine.jobs.add("j" * 32, "signature", {"args": [], "cwd": "/"})
    instance = add_instance(engine, "1", READY, "process")
    engine.metadata.update("instances", "id = ?", instance, job="j" * 32)
    engine = opened()
    engine.start()
    wait_until(lambda: engine.jobs.status("j" * 32) == "failed")
    assert engine.instances.rows() == []


def test_a_job_that_is_removed_while_it_ends_is_forgotten(opened: Open) -> None:
    engine = opened()
    engine.start()
    request = {"args": ["-c", "SELECT 1"], "cwd": "/", "plan_only": True}
    engine.jobs.add("j" * 32, "signature", request)
    engine.jobs.remove("j" * 32)
    controller = engine.prepare
    controller._fail("j" * 32, ConfigError("too late"))
    assert controller.active() == []
    with pytest.raises(NotFound):
        engine.jobs.status("j" * 32)


def test_the_number_of_jobs_at_a_time_can_be_changed(opened: Open) -> None:
    engine = opened()
    controller = engine.prepare
    engine.metadata.insert("settings", path="orchestrator.parallel", value="2")
    engine.change_settings()
    assert [controller._begins() for _ in range(3)] == [True, True, False]
    engine.metadata.insert("settings", path="orchestrator.parallel", value="3")
    engine.change_settings()
    assert [controller._begins() for _ in range(2)] == [True, False]


def test_the_warm_pool_outlives_an_error_of_the_system(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, times, again = opened().pool, list[None](), threading.Event()

    def fails() -> None:
        times.append(None)
        if len(times) > 1:
            again.set()
        raise OSError("no space left")

    monkeypatch.setattr(warm_pool, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(pool, "_drop_cold", fails)
    pool.start()
    assert again.wait(10)
    pool.stop()


def test_a_resumed_watcher_knows_the_task_that_runs(opened: Open) -> None:
    jobs = opened().jobs
    jobs.add("j" * 32, "signature", {})
    number = jobs.add_task("j" * 32, "plan", "plan")
    jobs.task("j" * 32, number, status="running")
    for text in ("one", '"type": "task"'):
        jobs.log("j" * 32, text)
    assert jobs.running_task("j" * 32, 2) is None
    assert '"status": "running"' in str(jobs.running_task("j" * 32, 5))
    jobs.task("j" * 32, number, status="succeeded")
    assert jobs.running_task("j" * 32, 99) is None
