"""Standing tasks on a standalone cluster with a real master and worker: killed executors, unreachable executors, no
free slot."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.cluster import CONF, executors, standalone_cluster
from helpers.waiting import suspend, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(800)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, psutil.Process]]:
    with standalone_cluster(tmp_path) as made:
        yield made


def pipeline(master: str, *names: str) -> dict[str, Any]:
    """A pipeline with processors that each have their own topics."""
    return {
        "topics": [{"name": f"{name}.{side}", "storage": "file"} for name in names for side in ("in", "out")],
        "processors": [
            {
                "name": name,
                "plugin": "filter",
                "source": {"topic": f"{name}.in", "read": "offset"},
                "target": {"topic": f"{name}.out"},
                "config": {"input": {"format": "json"}, "where": ".n % 2 == 0"},
            }
            for name in names
        ],
        "spark": {"master": master, "conf": CONF},
    }


def numbers(start: int, stop: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in range(start, stop)]


def with_children(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def holder(run: Any, worker: psutil.Process) -> psutil.Process:
    """The executor that runs the task of `keep`, once the status of its last epoch names it."""

    def found() -> psutil.Process | None:
        pid = task_of(run)
        return next((each for each in executors(worker) if pid in [one.pid for one in with_children(each)]), None)

    wait_until(found, 150)
    told = found()
    assert told is not None
    return told


def test_task_outlives_an_executor_that_is_killed_and_one_that_is_cut_off(
    cluster: tuple[str, psutil.Process], make_engine: Any, spawn_driver: Any
) -> None:
    master, worker = cluster
    run = make_engine(pipeline(master, "keep"))
    run.send("keep.in", numbers(0, 200))
    driver = spawn_driver(run)
    assert run.wait_for("keep.out", 100, 200) == numbers(0, 200)[::2]

    killed = with_children(holder(run, worker))
    killed[0].kill()
    # Its Python worker notices a moment later, and until then may still read and publish.
    assert not psutil.wait_procs(killed, 60)[1]
    run.send("keep.in", numbers(200, 400))
    assert run.wait_for("keep.out", 200, 200) == numbers(0, 400)[::2]

    # A suspended executor: Spark gives it up and starts its task elsewhere.
    wait_until(lambda: len(executors(worker)) == 2, 150)
    cut_off, first = with_children(holder(run, worker)), task_of(run)
    for process in cut_off:
        suspend(process)
    run.send("keep.in", numbers(400, 600))
    assert run.wait_for("keep.out", 300, 200) == numbers(0, 600)[::2]
    assert task_of(run) != first
    for process in cut_off:  # and it resumes
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    run.send("keep.in", numbers(600, 800))
    assert run.wait_for("keep.out", 400, 200) == numbers(0, 800)[::2]
    assert driver.poll() is None


def task_of(run: Any) -> int:
    """The process of a processor's task."""
    row = next(row for row in run.client.command("processors.ls")["processors"] if row["name"] == "keep")
    return int(row["tasks"][-1]["where"].rpartition(":")[2])


def test_who_gets_no_slot_says_so_and_the_others_go_on(
    cluster: tuple[str, psutil.Process], make_engine: Any, spawn_driver: Any
) -> None:
    master, _ = cluster
    names = ("a", "b", "c")  # the cluster has two slots
    run = make_engine(pipeline(master, *names))
    for name in names:
        run.send(f"{name}.in", numbers(0, 10))
    spawn_driver(run)

    def waiting() -> list[str]:
        found = run.client.command("processors.ls")["processors"]
        return [row["name"] for row in found if "0 of its 1 tasks have a slot" in row["detail"]]

    wait_until(lambda: len(waiting()) == 1, 150)
    (last,) = waiting()
    for name in set(names) - {last}:
        assert run.wait_for(f"{name}.out", 5, 60) == numbers(0, 10)[::2]
    assert run.records(f"{last}.out") == []
