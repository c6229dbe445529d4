"""Spark's settings, and a session on a JVM of this process."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gauss.config.spec import CLUSTER_SECRET, SparkSection
from gauss.model.paths import DataDir
from gauss.spark import launcher, zygote
from gauss.spark.daemon import PRELOAD_VARIABLE
from gauss.spark.jvm import Java, Use, gateway, launch, prepare

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger("gauss.driver")


class Preload(NamedTuple):
    """Modules that Python workers load before their first task."""

    early: tuple[str, ...] = ()
    """Loaded by the first Python process of Spark, and so by all."""
    late: tuple[str, ...] = ()
    """Loaded by workers; the zygote loads them while the JVM starts."""

    @property
    def variable(self) -> str:
        """As the environment variable of the daemon that forks the workers."""
        return ",".join((*self.early, *self.late))


NOTHING = Preload()


def cores_of(master: str) -> int:
    """The cores of a local master, and a first guess for any other."""
    found = re.match(r"local\[(\d+)", master)
    return int(found[1]) if found else 1 if master == "local" else os.cpu_count() or 1


def _python(java: Java, folder: Path) -> Path:
    """Writes the "python" that Spark starts: the launcher, with the folder of the zygote's socket."""
    script = java.home / "bin" / "python"
    command = [sys.executable, "-I", "-S", launcher.__file__, str(folder), sys.executable]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o700)
    return script


def settings(section: SparkSection, data_dir: DataDir, standing: int = 0, preload: Preload = NOTHING) -> dict[str, str]:
    """Spark's configuration; `[spark] conf` overrides it."""
    local = section.master.startswith("local")
    found = {
        "spark.master": _with_slots(section.master, standing),
        "spark.app.name": "gauss",
        "spark.ui.enabled": "false",  # Gauss has its own pages; saves 0.3 s and a port
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.sql.variable.substitute": "false",  # `${env:NAME}` in a query would be the variable's value
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.ansi.enabled": "false",  # expressions are total: x / 0 is null
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(data_dir.cache / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",  # no Hive, no Derby
        "spark.local.dir": str(data_dir.cache / "spark-tmp"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",  # plans anew at every micro-batch for nothing
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",  # conditions on a topic are looked at where it lies
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),  # rows of a block join hold up to 16 MiB
        # A worker process serves many tasks, over a unix socket (3.0M rec/s against 2.3M over TCP).
        "spark.python.worker.reuse": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "gauss.spark.daemon",
        # Each checkpoint file through FileContext forks `readlink` and `chmod`: about 200 ms per trigger. This
        # manager renames through FileSystem, and our subclass of the local one leaves the permission alone.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.stopTimeout": "8000",
        "spark.scheduler.mode": "FAIR",  # one busy query does not make the others wait
        "spark.task.maxFailures": "3",
    }
    if local:
        found |= {
            "spark.default.parallelism": str(cores_of(section.master)),
            "spark.python.task.killTimeout": "500ms",  # what stands is told to end before it is killed
            "spark.hadoop.fs.file.impl": "gauss.LocalFiles",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # The driver's ports read Java objects. Spark makes a secret of its own for each local session.
            "spark.authenticate": "true",
        }
    else:
        found[f"spark.executorEnv.{PRELOAD_VARIABLE}"] = preload.variable
        if CLUSTER_SECRET in section.conf:
            found["spark.authenticate"] = "true"
    return {**found, **section.conf}


def _with_slots(master: str, standing: int) -> str:
    """A local master with an additional slot for every standing task. `local[N]` never retries a task; `local[N,3]`
    does."""
    if not re.fullmatch(r"local|local\[(\d+|\*)\]", master):
        return master
    return f"local[{cores_of(master) + standing},3]"


_zygotes: list[subprocess.Popen[bytes]] = []
"""At most one: pyspark has one JVM per process."""


class Spark:
    """Spark on a JVM of this process. Its SQL session is made at the first use: standing jobs need none, and it costs a
    second and a hundred megabytes."""

    def __init__(self, context: SparkContext, given: dict[str, str], trained: Path | None) -> None:
        """`trained`: the class archive that its JVM writes at its end."""
        self.context = context
        self._given = given
        self._trained = trained
        self._session: SparkSession | None = None
        self._lock = threading.Lock()

    @property
    def session(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                from pyspark.sql import SparkSession

                builder = SparkSession.builder
                for key, value in self._given.items():
                    builder = builder.config(key, value)
                self._session = builder.getOrCreate()
                if self._trained is None:
                    _name_variables(self._session)
            return self._session

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The JVM."""
        process: subprocess.Popen[bytes] = self.context._gateway.proc  # type: ignore[union-attr]
        return process

    def warm_up(self) -> None:
        """Runs a job with a Python worker, so that the first batch of a query finds the scheduler loaded. (Queries get
        another daemon: Spark keeps one per set of environment variables.)"""

        def work() -> None:
            try:
                self.context.parallelize([0], 1).map(abs).collect()
            except Exception as error:  # the queries will report it
                log.info("no warm-up: %s", type(error).__name__)

        threading.Thread(target=work, name="warm-up", daemon=True).start()

    def stop(self, wait_seconds: float = 6.0) -> None:
        """Stops Spark and its JVM, and moves a complete class archive that the JVM wrote to its place. A JVM that has
        died is no error."""
        process = self.process
        _release_no_more(self.context)
        with contextlib.nullcontext() if process.poll() is None else contextlib.suppress(Exception):
            if self._session is not None:
                self._session.stop()
            else:
                self.context.stop()
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._trained is not None and process.returncode == 0:
            with contextlib.suppress(FileNotFoundError):
                self._trained.with_suffix(".new").rename(self._trained)
        from pyspark import SparkContext

        while _zygotes:
            with _zygotes.pop() as ending:
                assert ending.stdin is not None
                ending.stdin.close()
        SparkContext._gateway = None
        SparkContext._jvm = None


def _release_no_more(context: SparkContext) -> None:
    """Stops telling the JVM which of its objects Python no longer references: the thread of py4j that does so logs an
    error if the JVM exits meanwhile."""
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER

    client: Any = context._gateway._gateway_client  # type: ignore[union-attr]
    client.garbage_collect_object = lambda *_: None
    client.finalizer_deque.clear()
    client.finalizer_deque.append(SHUTDOWN_FINALIZER_WORKER)


class Launched(NamedTuple):
    """A JVM that has booted, and the settings for its Spark."""

    process: subprocess.Popen[bytes]
    given: dict[str, str]
    port: str
    secret: str
    trained: Path | None


def boot(
    section: SparkSection,
    data_dir: DataDir,
    *,
    training: bool = False,
    use: Use = Use.COLUMNS,
    standing: int = 0,
    preload: Preload = NOTHING,
) -> Launched:
    """Starts a JVM. `training`: it writes the class archive when it exits. `standing`: the number of standing tasks,
    which get slots of their own. Does not import pyspark, so that another thread can do so meanwhile."""
    java = Java.of(data_dir, use)
    java = replace(java, home=java.home.with_name("spark-home-training")) if training else java
    command = prepare(java, section.driver_memory, training, use)
    os.environ["SPARK_HOME"] = str(java.home)
    # The driver decides which Python the workers run, also on a cluster; the builder's setting has no effect.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_DIRS"] = str(data_dir.cache / "spark-tmp")
    forks = section.zygote and section.master.startswith("local") and not training
    if forks:
        # Not for the executors of a cluster, which run on other machines.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python(java, data_dir.run))
    os.environ[PRELOAD_VARIABLE] = preload.variable
    given = settings(section, data_dir, standing, preload)
    with tempfile.TemporaryDirectory(prefix="gauss-") as folder:
        answer = Path(folder) / "gateway"
        process = launch(command, given, answer, java.output)
        if forks:
            _start_zygote(data_dir.run, preload)
        return Launched(process, given, *gateway(process, answer, java), java.archive if training else None)


def connect(launched: Launched) -> Spark:
    """Connects to a JVM that has booted."""
    from pyspark import SparkConf, SparkContext

    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = launched.port, launched.secret
    context = SparkContext(conf=SparkConf().setAll(list(launched.given.items())))
    del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    context._gateway.proc = launched.process  # type: ignore[union-attr]
    return Spark(context, launched.given, launched.trained)


def start(
    section: SparkSection,
    data_dir: DataDir,
    *,
    training: bool = False,
    use: Use = Use.COLUMNS,
    standing: int = 0,
    preload: Preload = NOTHING,
) -> Spark:
    """Boots a JVM and connects to it."""
    return connect(boot(section, data_dir, training=training, use=use, standing=standing, preload=preload))


STREAM_VARIABLES = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")


def _name_variables(session: SparkSession) -> None:
    """Puts the variables into the map that all streams share. Each stream would add them from a thread of its own, and
    two at once can corrupt the map ("Task not serializable", "Illegal size of collection"); for existing names only the
    values change."""
    source = session._jsparkSession.sessionState().dataSourceManager().lookupDataSource("gauss")
    variables = source.dataSourceCls().envVars()
    for name in STREAM_VARIABLES:
        variables.put(name, "")


def _start_zygote(folder: Path, preload: Preload) -> None:
    try:
        _zygotes.append(zygote.start(folder, (*zygote.LOADED, *preload.early), preload.late))
    except OSError as error:  # such as a file system without sockets: the launcher then starts ordinary processes
        log.warning("no zygote, so Spark's Python processes start seconds later: %s", error)
