"""The jars of the local Kafka broker: fetched once from Maven Central into the user's cache folder, by the Ivy that
pyspark contains."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

from gauss.model.errors import ConfigError, Unavailable
from gauss.process import locks
from gauss.process.java import find_java

VERSION = "4.3.1"
LIBS_VARIABLE = "GAUSS_KAFKA_LIBS"
"""A folder of jars to use instead, such as `libs` of a Kafka distribution."""
FETCH_SECONDS = 600.0
_BY_HAND = f"connect this machine to the network once, or set {LIBS_VARIABLE} to the folder libs of a Kafka 4 download"
_IVY = f"""<ivy-module version="2.0">
  <info organisation="gauss" module="kafka"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default"/>
  </dependencies>
</ivy-module>
"""


def folder() -> Path:
    """Where the jars are, or will be."""
    if named := os.environ.get(LIBS_VARIABLE):
        return Path(named).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "gauss" / f"kafka-{VERSION}"


def class_path() -> str:
    """The class path of a broker. Fetches the jars if they are missing; several processes may do so at once."""
    libs = folder()
    if not libs.is_dir():
        if os.environ.get(LIBS_VARIABLE):
            raise ConfigError(f"{LIBS_VARIABLE} names no folder: {libs}", hint="name the folder that holds the jars")
        _fetch_once(libs)
    if not any(libs.glob("kafka-server-*.jar")):
        raise ConfigError(
            f"{libs} holds no Kafka 4", hint=f"delete it so that it is fetched again, or correct {LIBS_VARIABLE}"
        )
    return f"{libs}/*"


def _fetch_once(libs: Path) -> None:
    try:
        libs.parent.mkdir(parents=True, exist_ok=True)
        held = locks.take(libs.with_name(f".{libs.name}.lock"), wait_seconds=FETCH_SECONDS)
    except OSError as error:
        raise ConfigError(
            f"the cache folder {libs.parent} can't be used: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder that this user may write to",
        ) from error
    if held is None:
        raise Unavailable(f"another process has been fetching Kafka into {libs} for {FETCH_SECONDS:.0f} s")
    try:
        if not libs.is_dir():  # else another process was faster
            _fetch(libs)
    finally:
        os.close(held)


def _fetch(libs: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{libs.name}.", dir=libs.parent) as work:
        module = Path(work) / "ivy.xml"
        module.write_text(_IVY)
        command = [find_java("Kafka"), "-cp", f"{_pyspark_jars()}/*", "org.apache.ivy.Main", "-warn"]
        command += ["-ivy", str(module), "-cache", f"{work}/cache", "-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{work}/libs/[artifact]-[revision].[ext]"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"Kafka was not fetched within {FETCH_SECONDS:.0f} s", hint=_BY_HAND) from None
        if done.returncode or not any(Path(work, "libs").glob("kafka-server-*.jar")):
            raise Unavailable(f"Kafka {VERSION} can't be fetched from Maven Central: {_reason(done)}", hint=_BY_HAND)
        Path(work, "libs").rename(libs)


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines()]
    told = [line for line in lines if "exception" in line.lower()] or [line for line in lines if "not found" in line]
    return (told or [line for line in lines if line] or ["Ivy printed nothing"])[0]


def _pyspark_jars() -> Path:
    """Found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("pyspark, whose Ivy fetches Kafka, is not installed", hint="pip install pyspark")
    return Path(spec.submodule_search_locations[0]) / "jars"
