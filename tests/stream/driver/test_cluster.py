"""Standing tasks on a standalone cluster: a real master and worker, executors that are killed or cut off, no slot."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.run import free_port

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(800)]

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""As the driver's own JVM: five of them start here."""
SECRET = "of-the-cluster"


def wait_until(check: Any, seconds: float = 150.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.3)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, psutil.Process]]:
    """The master's address and the worker's process."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} -Dspark.authenticate=true -Dspark.authenticate.secret={SECRET}",
    }
    port, web, worker_web = free_port(), free_port(), free_port()
    log = (tmp_path / "cluster.log").open("wb")

    def launch(*arguments: str) -> subprocess.Popen[bytes]:
        command = [str(home / "bin" / "spark-class"), *arguments]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def workers() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as reply:
                return int(json.load(reply)["aliveworkers"])
        except OSError:
            return -1

    base = "org.apache.spark.deploy"
    master = launch(f"{base}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web))
    wait_until(lambda: workers() >= 0)
    worker = launch(
        *(f"{base}.worker.Worker", "--host", "127.0.0.1", "--webui-port", str(worker_web)),
        *("--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work"), f"spark://127.0.0.1:{port}"),
    )
    wait_until(lambda: workers() == 1)
    yield f"spark://127.0.0.1:{port}", psutil.Process(worker.pid)
    for process in (worker, master):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    log.close()


def executors(worker: psutil.Process) -> list[psutil.Process]:
    return [child for child in worker.children(recursive=True) if is_executor(child)]


def is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in part for part in process.cmdline())
    except psutil.NoSuchProcess:  # a worker that has just ended; a zombie counts as such
        return False


def pipeline(master: str, *names: str) -> dict[str, Any]:
    """Processors of a topic each."""
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate.secret": SECRET,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeout": "6s",
        "spark.network.timeoutInterval": "1s",
    }
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
        "spark": {"master": master, "conf": conf},
    }


def numbers(start: int, stop: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in range(start, stop)]


def with_children(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def holder(run: Any, worker: psutil.Process) -> psutil.Process:
    """The executor in which the task of `keep` runs, as soon as its last epoch is told."""

    def found() -> psutil.Process | None:
        pid = task_of(run)
        return next((each for each in executors(worker) if pid in [one.pid for one in with_children(each)]), None)

    wait_until(found)
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

    holder(run, worker).kill()
    run.send("keep.in", numbers(200, 400))
    assert run.wait_for("keep.out", 200, 200) == numbers(0, 400)[::2]

    # One that neither hears nor says anything: Spark gives it up, and its task begins elsewhere.
    wait_until(lambda: len(executors(worker)) == 2)
    cut_off, first = with_children(holder(run, worker)), task_of(run)
    for process in cut_off:
        process.suspend()
    run.send("keep.in", numbers(400, 600))
    assert run.wait_for("keep.out", 300, 200) == numbers(0, 600)[::2]
    assert task_of(run) != first
    for process in cut_off:  # and comes back
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    run.send("keep.in", numbers(600, 800))
    assert run.wait_for("keep.out", 400, 200) == numbers(0, 800)[::2]
    assert driver.poll() is None


def task_of(run: Any) -> int:
    """The process of the processor's task."""
    row = next(row for row in run.client.command("processors.ls")["processors"] if row["name"] == "keep")
    return int(row["tasks"][-1]["where"].rpartition(":")[2])


def test_who_gets_no_slot_says_so_and_the_others_go_on(
    cluster: tuple[str, psutil.Process], make_engine: Any, spawn_driver: Any
) -> None:
    master, _ = cluster
    names = ("a", "b", "c")  # on two slots
    run = make_engine(pipeline(master, *names))
    for name in names:
        run.send(f"{name}.in", numbers(0, 10))
    spawn_driver(run)

    def waiting() -> list[str]:
        found = run.client.command("processors.ls")["processors"]
        return [row["name"] for row in found if "0 of its 1 tasks have a slot" in row["detail"]]

    wait_until(lambda: len(waiting()) == 1)
    (last,) = waiting()
    for name in set(names) - {last}:
        assert run.wait_for(f"{name}.out", 5, 60) == numbers(0, 10)[::2]
    assert run.records(f"{last}.out") == []
