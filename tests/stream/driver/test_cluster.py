"""The same pipeline on a standalone cluster: a real master and worker, and an executor that is killed."""

from __future__ import annotations

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
        *("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"), f"spark://127.0.0.1:{port}"),
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


def test_query_on_a_cluster_outlives_a_killed_executor(
    cluster: tuple[str, psutil.Process], make_engine: Any, spawn_driver: Any
) -> None:
    master, worker = cluster
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate.secret": SECRET,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": QUICK,
    }
    run = make_engine(
        {
            "topics": [{"name": name, "storage": "file"} for name in ("in", "out")],
            "processors": [
                {
                    "name": "keep",
                    "plugin": "filter",
                    "source": {"topic": "in", "read": "offset"},
                    "target": {"topic": "out"},
                    "config": {"input": {"format": "json"}, "where": ".n % 2 == 0"},
                }
            ],
            "spark": {"master": master, "conf": conf},
        }
    )
    records = [b'{"n":%d}' % number for number in range(400)]
    run.send("in", records[:200])
    driver = spawn_driver(run)
    assert run.wait_for("out", 100, 200) == records[:200:2]

    # A child that Java is about to start looks like Java itself for a moment; parents come first.
    executors(worker)[0].kill()
    run.send("in", records[200:])
    assert run.wait_for("out", 200, 200) == records[::2]
    assert driver.poll() is None
