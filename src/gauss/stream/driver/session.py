"""Spark: every setting that start-up, latency and silence on the terminal ask for."""

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
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gauss.config.spec import CLUSTER_SECRET, ProcessorDef, SparkSection
from gauss.contracts.processor import ProcessorSpec
from gauss.model.paths import DataDir
from gauss.registry import build, spec
from gauss.stream.driver import launcher, zygote
from gauss.stream.driver.jvm import Java, Use, gateway, launch, prepare
from gauss.stream.driver.teams import cores_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger("gauss.driver")


def _python(java: Java, folder: Path) -> Path:
    """Writes the "python" that Spark starts: the launcher, which asks the zygote whose socket lies in the folder."""
    script = java.home / "bin" / "python"
    command = [sys.executable, "-I", "-S", launcher.__file__, str(folder), sys.executable]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o700)
    return script


def settings(section: SparkSection, data_dir: DataDir, standing: int = 0) -> dict[str, str]:
    """Spark's configuration; what the user gives in `[spark] conf` comes last."""
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
        "spark.python.daemon.module": "gauss.stream.driver.daemon",
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
    elif CLUSTER_SECRET in section.conf:
        found["spark.authenticate"] = "true"
    return {**found, **section.conf}


def _with_slots(master: str, standing: int) -> str:
    """A local master with a slot for every task that may stand beside those of queries: the cores are shared by the
    operating system. `local[N]` never tries a task again; `local[N,3]` does."""
    if not re.fullmatch(r"local|local\[(\d+|\*)\]", master):
        return master
    return f"local[{cores_of(master) + standing},3]"


_zygotes: list[subprocess.Popen[bytes]] = []
"""At most one: a process has one JVM, as pyspark has it."""


def use_of(processors: Iterable[ProcessorDef]) -> Use:
    """What they need of a JVM. Where Spark keeps a row of state for each record, throughput hangs on how well Java's
    code is compiled (dedup: 1.5 to 1.8 times as fast)."""
    found = Use.NOTHING
    for entry in processors:
        plugin = spec(ProcessorSpec, entry.plugin)
        if plugin.hosted:
            continue
        found = Use.COLUMNS
        if plugin.stateful:
            transform = build(plugin, plugin.validate(entry.config))
            aggregates = hasattr(transform, "partial") and not getattr(transform, "keeps_each", False)
            if not aggregates and not getattr(transform, "blocks_ms", 0):
                return Use.STATE
    return found


class Spark:
    """Spark on a JVM of this process. Its SQL session is made when it is first asked for: standing jobs need none, and
    it costs a second and a hundred megabytes."""

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
        """Runs a job with a Python worker: the first batch of a query finds the scheduler and the ways to Python
        loaded. (Its daemon is not theirs: Spark keeps one for each set of environment variables.)"""

        def work() -> None:
            try:
                self.context.parallelize([0], 1).map(abs).collect()
            except Exception as error:  # whatever it is, the queries will tell it better
                log.info("no warm-up: %s", type(error).__name__)

        threading.Thread(target=work, name="warm-up", daemon=True).start()

    def stop(self, wait_seconds: float = 6.0) -> None:
        """Ends it and its JVM; a class archive that the JVM wrote at its end takes its place if it is whole."""
        process = self.process
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


class Launched(NamedTuple):
    """A JVM that has booted, and what its Spark is to be told."""

    process: subprocess.Popen[bytes]
    given: dict[str, str]
    port: str
    secret: str
    trained: Path | None


def boot(
    section: SparkSection, data_dir: DataDir, *, training: bool = False, use: Use = Use.COLUMNS, standing: int = 0
) -> Launched:
    """Starts a JVM; `training`: one that writes the class archive at its end; `standing`: how many tasks may stand
    beside those of queries. Imports nothing of pyspark, so that another thread may do so meanwhile."""
    java = Java.of(data_dir, use)
    java = replace(java, home=java.home.with_name("spark-home-training")) if training else java
    command = prepare(java, section.driver_memory, training, use)
    os.environ["SPARK_HOME"] = str(java.home)
    # The driver decides which Python the workers run, also on a cluster; the builder's setting does not help.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_DIRS"] = str(data_dir.cache / "spark-tmp")
    forks = section.master.startswith("local") and not training
    if forks:
        # Executors of a cluster run elsewhere: there every process starts in the ordinary way.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python(java, data_dir.run))
    given = settings(section, data_dir, standing)
    with tempfile.TemporaryDirectory(prefix="gauss-") as folder:
        answer = Path(folder) / "gateway"
        process = launch(command, given, answer, java.output)
        if forks:
            _start_zygote(data_dir.run)
        return Launched(process, given, *gateway(process, answer, java), java.archive if training else None)


def connect(launched: Launched) -> Spark:
    """Spark in a JVM that has booted."""
    from pyspark import SparkConf, SparkContext

    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = launched.port, launched.secret
    context = SparkContext(conf=SparkConf().setAll(list(launched.given.items())))
    del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    context._gateway.proc = launched.process  # type: ignore[union-attr]
    return Spark(context, launched.given, launched.trained)


def start(
    section: SparkSection, data_dir: DataDir, *, training: bool = False, use: Use = Use.COLUMNS, standing: int = 0
) -> Spark:
    """Spark, all at once."""
    return connect(boot(section, data_dir, training=training, use=use, standing=standing))


STREAM_VARIABLES = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")


def _name_variables(session: SparkSession) -> None:
    """Each stream puts these variables into one map that all streams share, in a thread of its own: two that begin at
    once could break it, and no task could be sent any more ("Task not serializable", "Illegal size of collection").
    Where the names are there already, only values change."""
    source = session._jsparkSession.sessionState().dataSourceManager().lookupDataSource("gauss")
    variables = source.dataSourceCls().envVars()
    for name in STREAM_VARIABLES:
        variables.put(name, "")


def _start_zygote(folder: Path) -> None:
    try:
        _zygotes.append(zygote.start(folder, later=zygote.LATER))
    except OSError as error:  # a file system without sockets, say: the launcher then starts ordinary processes
        log.warning("Spark's Python processes start one by one, seconds later: %s", error)
