"""The files and the start of the JVM, with at most a short-lived JVM."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gauss.config.spec import ProcessorDef
from gauss.model.errors import GaussError
from gauss.model.paths import DataDir
from gauss.process.java import find_java
from gauss.spark.jvm import Java, Use, gateway, launch, prepare
from gauss.stream.driver.planning.jvm_use import use_of


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.setenv("GAUSS_CACHE_DIR", str(tmp_path / "cache"))
    return Java.of(DataDir(tmp_path))


def test_command_to_start_java_is_known_before_pyspark_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gauss.model.paths import DataDir;"
        "from gauss.spark.jvm import Java, prepare;"
        f"prepare(Java.of(DataDir(Path({str(tmp_path)!r}))), '1g', False);"
        "print({'pyspark', 'py4j', 'pyarrow', 'numpy'} & set(sys.modules))"
    )
    environment = {**os.environ, "GAUSS_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "set()"


def test_archive_of_another_java_or_spark_is_removed_and_its_own_is_kept(java: Java) -> None:
    prepare(java, "1g", training=False)
    java.archive.write_bytes(b"classes")
    prepare(java, "1g", training=False)
    assert java.archive.exists()
    java.archive.with_name("made-for").write_text("another")
    prepare(java, "1g", training=False)
    assert not java.archive.exists()


def test_java_that_only_schedules_has_a_small_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAUSS_CACHE_DIR", str(tmp_path / "cache"))
    paths = DataDir(tmp_path)
    small, whole = Java.of(paths, Use.NOTHING), Java.of(paths, Use.STATE)
    assert small.archive != whole.archive == Java.of(paths).archive
    for java in (small, whole):
        prepare(java, "1g", training=False)
        java.archive.write_bytes(b"classes")
    prepare(small, "1g", training=False)
    assert whole.archive.exists()
    small.archive.with_name("made-for").write_text("another")
    prepare(small, "1g", training=False)
    assert not small.archive.exists() and not whole.archive.exists()


def test_archive_is_written_under_another_name_while_training(java: Java) -> None:
    assert f"-XX:SharedArchiveFile={java.archive}" in prepare(java, "1g", training=False)
    assert f"-XX:ArchiveClassesAtExit={java.archive.with_suffix('.new')}" in prepare(java, "1g", training=True)


@pytest.mark.parametrize(
    ("plugin", "config", "wanted"),
    [
        ("dedup", {"within": "1s"}, Use.STATE),
        ("window-join", {"join_type": "left"}, Use.STATE),
        ("window-join", {"window": "1h"}, Use.STATE),
        ("window-join", {}, Use.COLUMNS),
        ("ohlc", {"intervals": ["1s"]}, Use.COLUMNS),
        ("filter", {"where": ".a"}, Use.NOTHING),
    ],
)
def test_java_is_sized_for_what_spark_does_with_records(
    java: Java, plugin: str, config: dict[str, object], wanted: Use
) -> None:
    near = {"join_topic": "b", "join_key": "k", "window": "1s"} if plugin == "window-join" else {}
    read = {"topic": "a", "read": "offset"}
    given = {"input": {"format": "json"}, **near, **config}
    entry = ProcessorDef.model_validate({"name": "p", "plugin": plugin, "source": read, "config": given})
    assert use_of([entry]) is wanted
    command = prepare(java, "1g", training=False, use=wanted)
    assert ("-XX:TieredStopAtLevel=1" in command) is (wanted is not Use.STATE)
    assert ("-Xmn32m" in command) is (wanted is Use.NOTHING)


def test_workers_find_compiled_modules_where_spark_looks_for_a_zip(java: Java) -> None:
    prepare(java, "1g", training=False)
    assert (java.home / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.py").exists()


def test_java_that_ends_at_once_is_told_with_its_exit_code_and_log(java: Java) -> None:
    java.output.parent.mkdir(parents=True)
    java.home.mkdir(parents=True)
    process = launch([find_java("Spark"), "-Xmxlots"], {}, java.home / "gateway", java.output)
    with pytest.raises(GaussError) as caught:
        gateway(process, java.home / "gateway", java)
    assert "exit code 1" in caught.value.message
    assert str(java.output) in caught.value.hint
    assert "Invalid maximum heap size" in java.output.read_text()
    assert process.stdin is not None
    process.stdin.close()


def test_gateway_reads_port_and_secret_once_they_are_there(java: Java, tmp_path: Path) -> None:
    answer = tmp_path / "gateway"
    answer.write_bytes((40_123).to_bytes(4, "big") + (6).to_bytes(4, "big") + b"secret")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        began = time.monotonic()
        assert gateway(process, answer, java) == ("40123", "secret")
        assert time.monotonic() - began < 30 and process.stdin is not None
        process.stdin.write(b"\n")
