"""The JVM of a driver: its files, its options, and its start while Python still imports."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from gauss.model.errors import GaussError
from gauss.model.paths import DataDir
from gauss.process.java import find_java

JAVA_CLASSES = Path(__file__).parent / "java" / "gauss-local-files.jar"

# What Spark's launcher would open; it is bypassed because it starts a JVM of its own.
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


class Use(Enum):
    """What a JVM does besides scheduling tasks."""

    NOTHING = "nothing"
    COLUMNS = "columns"
    STATE = "state"
    """Stateful operators."""


ARCHIVES = {use: "standing.jsa" if use is Use.NOTHING else "spark.jsa" for use in Use}
"""A JVM that only schedules needs a third of Spark's classes, and an archive is wholly in memory."""


@dataclass(frozen=True)
class Java:
    """The JVM's files in a data directory."""

    home: Path
    """A SPARK_HOME of our own: links, and the settings of Java's logs."""
    log: Path
    output: Path
    """The output of the JVM and the Python workers."""
    archive: Path
    """The JVM's class archive; GAUSS_CACHE_DIR lets several data directories share one."""

    @classmethod
    def of(cls, data_dir: DataDir, use: Use = Use.COLUMNS) -> Java:
        return cls(
            home=data_dir.cache / "spark-home",
            log=data_dir.logs / "spark.log",
            output=data_dir.logs / "spark.out",
            archive=Path(os.environ.get("GAUSS_CACHE_DIR", data_dir.cache)) / ARCHIVES[use],
        )


def _java_options(java: Java, memory: str, training: bool, use: Use) -> list[str]:
    options = [
        f"-Xmx{memory}",
        # Objects of the start would otherwise stay in 100 MB of young generation.
        *(["-Xmn32m"] if use is Use.NOTHING else []),
        "-XX:+IgnoreUnrecognizedVMOptions",
        # Micro-batches are short: C2 costs more CPU than it saves, except for stateful operators.
        *([] if use is Use.STATE else ["-XX:TieredStopAtLevel=1"]),
        "-XX:+UseSerialGC",  # a small heap on few cores; no concurrent collector threads
        "-XX:-UsePerfData",  # no hsperfdata file, which another user's /tmp may refuse
        "-Xss2m",  # deep plans of generated SQL
        "-Xshare:auto",
        # Maps the class archive at its own address: relocation would write to all of its pages at each start.
        *("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"),
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
    if training:
        options.append("-Xrs")  # a signal ends it at once, without writing the archive
    return [*options, f"-XX:{flag}={target}", "-Xlog:disable", "-Xlog:all=off"]


def prepare(java: Java, memory: str, training: bool, use: Use = Use.COLUMNS) -> list[str]:
    """Writes a SPARK_HOME with links into the installed pyspark and returns the command that starts the JVM.

    Does not import pyspark: that happens while the JVM boots.
    """
    spark, py4j = _folder("pyspark"), _folder("py4j")
    executable = find_java("Spark")
    lib = java.home / "python" / "lib"
    for folder in (lib, java.home / "bin", java.log.parent, java.archive.parent):
        folder.mkdir(parents=True, exist_ok=True)
    _link(java.home / "jars", spark / "jars")
    # Workers get $SPARK_HOME/python/lib/pyspark.zip on their path, and a zip has no compiled modules: 0.7 s per
    # process. The name is a link to the installed packages instead.
    _link(lib / "pyspark.zip", spark.parent)
    for zipped in (spark / "python" / "lib").glob("py4j-*.zip"):
        _link(lib / zipped.name, py4j.parent)
    (java.home / "log4j2.properties").write_text(_LOG4J.format(log=java.log))
    stamp = java.archive.with_name("made-for")
    # Asking `java` for its version would take 0.1 s.
    binary = Path(executable).resolve()
    made_for = f"{binary} {binary.stat().st_size} {binary.stat().st_mtime_ns} {spark} {version('pyspark')}"
    if not stamp.exists() or stamp.read_text() != made_for:
        for name in ARCHIVES.values():
            java.archive.with_name(name).unlink(missing_ok=True)
        stamp.write_text(made_for)
    # A sorted list instead of `jars/*`: the archive is valid only for the same class path.
    jars = [str(JAVA_CLASSES), *sorted(str(jar) for jar in (spark / "jars").glob("*.jar"))]
    options = _java_options(java, memory, training, use)
    return [executable, *options, "-cp", ":".join(jars), "org.apache.spark.deploy.SparkSubmit"]


def _folder(package: str) -> Path:
    """The folder of an installed package."""
    found = find_spec(package)
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def launch(command: list[str], given: dict[str, str], answer: Path, output: Path) -> subprocess.Popen[bytes]:
    """Starts the JVM as pyspark would, but before pyspark is imported; it ends when its `stdin` is closed. Settings are
    passed in a file beside `answer`, since every user of the machine can read a command line."""
    properties = answer.with_name("settings.properties")
    descriptor = os.open(properties, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in given.items())
    options = ["--properties-file", str(properties), "--load-spark-defaults"]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    if "spark.driver.bindAddress" in given:
        # Otherwise Java resolves the machine's own name, which takes seconds if no resolver knows it.
        environment["SPARK_LOCAL_IP"] = given["spark.driver.bindAddress"]
    with output.open("ab") as printed:
        return subprocess.Popen(
            [*command, *options, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,  # Ctrl-C in a terminal is handled by the driver
        )


def _escaped(text: str) -> str:
    """A key or value escaped for `java.util.Properties`."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"[ =:#!]", lambda found: f"\\{found[0]}", plain)


def gateway(process: subprocess.Popen[bytes], answer: Path, java: Java) -> tuple[str, str]:
    """Port and secret of the JVM's gateway, once it has written them; raises GaussError if the JVM ended."""
    while not answer.exists():  # moved there once it is complete
        if process.poll() is not None:
            raise GaussError(
                f"Java ended while Spark started, with exit code {process.returncode}", hint=f"see {java.output}"
            )
        time.sleep(0.01)
    written = answer.read_bytes()
    return str(int.from_bytes(written[:4], "big")), written[8:].decode()  # after the length of the secret
