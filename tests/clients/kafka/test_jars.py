"""How the jars of the local broker are fetched."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gauss.clients.kafka import jars
from gauss.model.errors import ConfigError, Unavailable

FETCHER = """#!/bin/sh
# Stands for Ivy: writes one jar where it is told to, and notes each call.
echo called >> "{calls}"
while [ "$1" != -retrieve ]; do shift; done
folder=$(dirname "$2")
mkdir -p "$folder" && sleep 0.3 && touch "$folder/kafka-server-4.3.1.jar"
"""


@pytest.fixture(autouse=True)
def no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(jars.LIBS_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def java(folder: Path, script: str) -> Path:
    """A JAVA_HOME."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_of_two_processes_at_once_one_fetches(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    environment = {**os.environ, "JAVA_HOME": str(java(tmp_path, FETCHER.format(calls=calls)))}
    command = [sys.executable, "-c", "from gauss.clients.kafka import jars; print(jars.class_path())"]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {each.communicate()[0] for each in both} == {f"{jars.folder()}/*\n"}
    assert calls.read_text() == "called\n"
    left = {path.name for path in jars.folder().parent.iterdir()}
    assert left == {jars.folder().name, f".{jars.folder().name}.lock"}


NO_NETWORK = """#!/bin/sh
# What Ivy prints without a network.
echo ":: problems summary ::"
echo ":::: ERRORS"
echo "	Server access error at url https://repository.example/ (java.net.ConnectException: Connection refused)"
exit 1
"""


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, NO_NETWORK)))
    with pytest.raises(Unavailable, match=r"can't be fetched from Maven Central: .*Connection refused") as raised:
        jars.class_path()
    assert jars.LIBS_VARIABLE in raised.value.hint and raised.value.retryable
    assert not jars.folder().exists()


def test_a_folder_of_jars_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.LIBS_VARIABLE, str(tmp_path / "libs"))
    with pytest.raises(ConfigError, match="names no folder"):
        jars.class_path()
    (tmp_path / "libs").mkdir()
    with pytest.raises(ConfigError, match="holds no Kafka 4"):
        jars.class_path()
    (tmp_path / "libs" / "kafka-server-4.1.0.jar").touch()
    assert jars.class_path() == f"{tmp_path}/libs/*"


def test_without_java_the_error_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="no `java` in JAVA_HOME"):
        jars.class_path()
