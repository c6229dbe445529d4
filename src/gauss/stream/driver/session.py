"""The Spark session: every setting that start-up, latency and silence on the terminal ask for."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gauss.config.spec import SparkSection
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.stream.driver import launcher, zygote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("gauss.driver")

JAVA_CLASSES = Path(__file__).parent / "java" / "gauss-local-files.jar"

# What Spark's own launcher would open; it is left out because it costs a JVM of its own at each start.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)

_LOG4J = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.window.name = org.apache.spark.sql.execution.window
logger.window.level = error
"""


@dataclass(frozen=True)
class Java:
    """The JVM's files in a data directory."""

    home: Path
    """A SPARK_HOME of our own, all links but for `spark-submit`."""
    log: Path
    output: Path
    """What the JVM and Python workers print."""
    archive: Path
    """The JVM's class archive; GAUSS_CACHE_DIR lets several data directories share one."""

    @classmethod
    def of(cls, data_dir: DataDir) -> Java:
        return cls(
            home=data_dir.cache / "spark-home",
            log=data_dir.logs / "spark.log",
            output=data_dir.logs / "spark.out",
            archive=Path(os.environ.get("GAUSS_CACHE_DIR", data_dir.cache)) / "spark.jsa",
        )


def find_java() -> str:
    """The `java` to run; raises ConfigError when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        where = f"JAVA_HOME ({home})" if home else "PATH"
        raise ConfigError(f"Spark needs Java 17 or later: no `java` in {where}", hint="install a JDK or JRE 17")
    return found


def _java_version(java: str) -> str:
    done = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False)
    lines = (line.split("=", 1) for line in done.stderr.splitlines() if "=" in line)
    return next((value.strip() for key, value in lines if key.strip() == "java.vm.version"), "unknown")


def _java_options(java: Java, memory: str, training: bool) -> list[str]:
    options = [
        f"-Xmx{memory}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-XX:TieredStopAtLevel=1",  # micro-batches are short: C2 costs more CPU than it brings
        "-XX:+UseSerialGC",  # a small heap on few cores; no concurrent collector threads
        "-XX:-UsePerfData",  # no hsperfdata file, which another user's /tmp may refuse
        "-Xss2m",  # deep plans of generated SQL
        "-Xshare:auto",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dderby.system.durability=test",
        f"-Dlog4j2.configurationFile={java.home / 'log4j2.properties'}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    ]
    # Loading Spark's classes from an archive saves seconds of each start (see archive.py, which makes it). An archive
    # that is missing or does not fit is ignored silently.
    flag = "ArchiveClassesAtExit" if training else "SharedArchiveFile"
    target = java.archive.with_suffix(".new") if training else java.archive
    return [*options, f"-XX:{flag}={target}", "-Xlog:disable", "-Xlog:all=off"]


def _prepare(java: Java, memory: str, training: bool) -> None:
    """Writes our SPARK_HOME: links into the installed pyspark, and a `spark-submit` that starts the JVM at once."""
    import py4j
    import pyspark

    spark = Path(pyspark.__file__).parent
    executable = find_java()
    lib = java.home / "python" / "lib"
    for folder in (lib, java.home / "bin", java.log.parent, java.archive.parent):
        folder.mkdir(parents=True, exist_ok=True)
    _link(java.home / "jars", spark / "jars")
    # Workers get $SPARK_HOME/python/lib/pyspark.zip on their path, and a zip has no compiled modules: 0.7 s per
    # process. Under that name lies a link to the installed packages instead.
    _link(lib / "pyspark.zip", spark.parent)
    for zipped in (spark / "python" / "lib").glob("py4j-*.zip"):
        _link(lib / zipped.name, Path(py4j.__file__).parent.parent)
    (java.home / "log4j2.properties").write_text(_LOG4J.format(log=java.log))
    stamp = java.archive.with_name("made-for")
    made_for = f"{_java_version(executable)} {spark} {pyspark.__version__}"
    if not stamp.exists() or stamp.read_text() != made_for:
        java.archive.unlink(missing_ok=True)
        stamp.write_text(made_for)
    # A sorted list instead of `jars/*`: the archive counts only for the very same class path.
    jars = [str(JAVA_CLASSES), *sorted(str(jar) for jar in (spark / "jars").glob("*.jar"))]
    command = [
        executable,
        *_java_options(java, memory, training),
        "-cp",
        ":".join(jars),
        "org.apache.spark.deploy.SparkSubmit",
    ]
    script = java.home / "bin" / "spark-submit"
    script.write_text(
        f'#!/bin/sh\nexport PYTHONHASHSEED=0\nexec {shlex.join(command)} "$@" >>{shlex.quote(str(java.output))} 2>&1\n'
    )
    script.chmod(0o755)


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _python(java: Java, folder: Path) -> Path:
    """Writes the "python" that Spark starts: the launcher, which asks the zygote whose socket lies in the folder."""
    script = java.home / "bin" / "python"
    command = [sys.executable, "-I", "-S", launcher.__file__, str(folder), sys.executable]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o755)
    return script


def settings(section: SparkSection, data_dir: DataDir) -> dict[str, str]:
    """Spark's configuration; what the user gives in `[spark] conf` comes last."""
    local = section.master.startswith("local")
    found = {
        "spark.master": _with_retries(section.master),
        "spark.app.name": "gauss",
        "spark.ui.enabled": "false",  # Gauss has its own pages; saves 0.3 s and a port
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.sql.ansi.enabled": "false",  # expressions are total: x / 0 is null
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(data_dir.cache / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",  # no Hive, no Derby
        "spark.local.dir": str(data_dir.cache / "spark-tmp"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",  # plans anew at every micro-batch for nothing
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
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
            "spark.hadoop.fs.file.impl": "gauss.LocalFiles",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return {**found, **section.conf}


def _with_retries(master: str) -> str:
    """`local[N]` never tries a task again; `local[N,3]` does."""
    if master == "local":
        return "local[1,3]"
    return f"{master[:-1]},3]" if master.startswith("local[") and "," not in master else master


_zygotes: list[subprocess.Popen[bytes]] = []
"""At most one: a process has one JVM, as pyspark has it."""


def start(section: SparkSection, data_dir: DataDir, *, training: bool = False) -> SparkSession:
    """A session on a JVM of this process; `training`: one that writes the class archive at its end."""
    java = Java.of(data_dir)
    java = replace(java, home=java.home.with_name("spark-home-training")) if training else java
    _prepare(java, section.driver_memory, training)
    os.environ["SPARK_HOME"] = str(java.home)
    # The driver decides which Python the workers run, also on a cluster; the builder's setting does not help.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_DIRS"] = str(data_dir.cache / "spark-tmp")
    if section.master.startswith("local") and not training:
        # Executors of a cluster run elsewhere: there every process starts in the ordinary way.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python(java, data_dir.run))
        _zygotes.append(zygote.start(data_dir.run))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in settings(section, data_dir).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def warm_up(session: SparkSession) -> None:
    """Starts the Python daemon and a worker while queries are still being planned: the first batch finds them there,
    more than a second sooner."""

    def work() -> None:
        try:
            session.sparkContext.parallelize([0], 1).map(abs).collect()
        except Exception as error:  # whatever it is, the queries will tell it better
            log.info("no warm-up: %s", type(error).__name__)

    threading.Thread(target=work, name="warm-up", daemon=True).start()


def stop(session: SparkSession, data_dir: DataDir, wait_seconds: float = 6.0) -> None:
    """Ends the session and its JVM; a class archive that the JVM wrote at its end takes its place if it is whole."""
    gateway = session.sparkContext._gateway
    process = getattr(gateway, "proc", None)
    session.stop()
    if process is None:
        return
    process.stdin.close()
    try:
        process.wait(wait_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    java = Java.of(data_dir)
    fresh = java.archive.with_suffix(".new")
    if process.returncode == 0 and fresh.exists():
        fresh.rename(java.archive)
    from pyspark import SparkContext

    while _zygotes:
        with _zygotes.pop() as ending:
            assert ending.stdin is not None
            ending.stdin.close()
    SparkContext._gateway = None
    SparkContext._jvm = None
