"""A standalone Spark cluster: a real master and real workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from helpers.run import free_port
from helpers.waiting import wait_until

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options for a fast start, as the driver's JVM has them: these tests start five JVMs."""
SECRET = "of-the-cluster"
CONF = {
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
"""Settings of an application: two executors of one core, and short timeouts."""


@contextmanager
def standalone_cluster(tmp_path: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Yields the master's address and the process of its one worker, which has two cores."""
    with standalone_workers(tmp_path, 1, cores=2) as (master, (worker,)):
        yield master, worker


@contextmanager
def standalone_workers(tmp_path: Path, count: int, *, cores: int) -> Iterator[tuple[str, list[psutil.Process]]]:
    """Yields the master's address and the processes of its workers."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} -Dspark.authenticate=true -Dspark.authenticate.secret={SECRET}",
    }
    port, web = free_port(), free_port()
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
    wait_until(lambda: workers() >= 0, 150)
    started = [
        launch(
            *(f"{base}.worker.Worker", "--host", "127.0.0.1", "--webui-port", str(free_port())),
            *("--cores", str(cores), "--memory", "2g", "--work-dir", str(tmp_path / f"work{number}")),
            f"spark://127.0.0.1:{port}",
        )
        for number in range(count)
    ]
    wait_until(lambda: workers() == count, 150)
    yield f"spark://127.0.0.1:{port}", [psutil.Process(worker.pid) for worker in started]
    for process in (*started, master):
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
    except psutil.NoSuchProcess:  # the process has ended; a zombie counts as ended
        return False
