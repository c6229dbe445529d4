"""Pipelines that are whole files: their faults, what they may not be together with, and their runs under a lease."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gauss.fleet.config.file import checked_text, file_faults
from gauss.fleet.config.stored import TO_STORE
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.keeper import clock
from gauss.fleet.store.configs import Kind
from gauss.model.errors import ConfigError
from helpers.fleet import WorkerProcess
from helpers.run import free_port
from helpers.waiting import suspend, wait_until

TEXT = """
[[topics]]
name = "lines"
storage = "file"

[[processors]]
name = "in"
plugin = "tcp-source"
target = {{ topic = "lines" }}
config = {{ port = {given}, input = {{ framing = "newline" }} }}

[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "lines", read = "offset" }}
config = {{ port = {made}, output = {{ framing = "newline" }} }}
"""


def put(store: FleetStore, pipeline: str, text: str) -> None:
    store.configs.change(pipeline, Kind.FILE, "me", lambda old: TO_STORE[Kind.FILE]({"text": text}, old))


def test_faults_of_a_file_have_lines_and_no_path_of_the_server() -> None:
    found = file_faults('[[topics]]\nname = "t"\nstorage = "memorie"\n')
    (error,) = [each for each in found if not each.warning]
    assert (error.file, error.line) == ("pipeline.toml", 3)
    assert "memory" in str(error)
    with pytest.raises(ConfigError, match=r"pipeline.toml:3"):
        checked_text('[[topics]]\nname = "t"\nstorage = "memorie"\n')
    assert file_faults("[[topics")[0].line == 1


def test_secrets_are_references_that_only_the_workers_need_to_know() -> None:
    table = (
        '[[formats]]\nname = "f"\nplugin = "json"\nconfig = {{ fields = [{{ name = "a", type = "int64" }}] }}\n'
        '[[topics]]\nname = "t"\nstorage = "clickhouse"\nstorage_config = {{ url = "{url}", format = "f" }}\n'
    )
    written = file_faults(table.format(url="http://user:hunter2@h:8123"))
    assert any("a secret in plain text" in each.message and each.line == 8 for each in written), written
    assert not any("hunter2" in str(each) for each in written)
    named = file_faults(table.format(url="http://user:${NO_SUCH_VARIABLE}@h:8123"))
    assert [each.warning for each in named] == [True] * len(named)
    assert any("NO_SUCH_VARIABLE" in each.message for each in named)


def test_a_pipeline_is_a_file_or_reads_a_topic_and_a_file_has_one_replica(store: FleetStore) -> None:
    text = TEXT.format(given=1024, made=1025)
    one, other = (store.pipelines.create(name, "", "me").id for name in ("file", "kafka"))
    put(store, one, text)
    assert [each.is_file for each in store.pipelines.list()] == [True, False]
    with pytest.raises(ConfigError, match="one replica"):
        store.pipelines.change_state(one, "me", replicas=2)
    kafka = {"brokers": ["b:1"], "topic": "t"}
    with pytest.raises(ConfigError, match="is a file of Gauss"):
        store.configs.change(one, Kind.KAFKA, "me", lambda old: TO_STORE[Kind.KAFKA](kafka, old))
    store.configs.change(other, Kind.KAFKA, "me", lambda old: TO_STORE[Kind.KAFKA](kafka, old))
    with pytest.raises(ConfigError, match="reads a topic"):
        put(store, other, text)
    third = store.pipelines.create("many", "", "me").id
    store.pipelines.change_state(third, "me", replicas=3)
    with pytest.raises(ConfigError, match="this one has 3"):
        put(store, third, text)


def test_a_command_ends_when_its_deadline_has_passed_though_nobody_tells_it_to() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    leased = [sys.executable, "-m", "gauss.fleet.worker.leased_run", *command]
    with subprocess.Popen(leased, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(f"{clock() + 600}\n".encode())
        process.stdin.flush()
        wait_until(lambda: psutil.Process(process.pid).children())
        process.stdin.write(f"{clock() + 0.2}\n".encode())
        process.stdin.flush()
        assert process.wait(30) != 0


@pytest.fixture
def workers() -> Iterator[list[WorkerProcess]]:
    found: list[WorkerProcess] = []
    yield found
    for each in found:
        psutil.Process(each.process.pid).resume()
        each.end()


def said(port: int) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.settimeout(2)
            return connection.recv(1_000)
    except OSError:
        return b""


@pytest.mark.system
@pytest.mark.fault
def test_a_file_runs_on_one_worker_is_edited_and_ends_with_the_lease(
    tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "fleet.key")
    pipeline = store.pipelines.create("file", "", "me").id
    given, made = free_port(), free_port()
    put(store, pipeline, TEXT.format(given=given, made=made))
    store.pipelines.change_state(pipeline, "me", desired="started")
    workers.append(WorkerProcess(tmp_path, "first", f"sqlite:///{tmp_path}/fleet.db"))

    def state() -> list[tuple[str, str]]:
        return [(each.state, each.reason) for each in store.leases.assignments(pipeline)]

    wait_until(lambda: state() == [("running", "")], 120, what=state)
    with socket.create_connection(("127.0.0.1", given), 10) as connection:
        connection.sendall(b"hello\n")
    wait_until(lambda: said(made) == b"hello\n")
    later = free_port()
    put(store, pipeline, TEXT.format(given=given, made=later))
    wait_until(lambda: said(later) == b"hello\n", 120, what=state)

    workers.append(WorkerProcess(tmp_path, "second", f"sqlite:///{tmp_path}/fleet.db"))
    second = workers[1].wait_up()
    suspend(psutil.Process(workers[0].process.pid))
    # The run of the suspended worker ends by itself, so that the ports are free for the other one.
    wait_until(lambda: [each.worker_id for each in store.leases.assignments(pipeline)] == [second])
    wait_until(lambda: state() == [("running", "")], 120, what=state)
    psutil.Process(workers[0].process.pid).resume()
    store.pipelines.change_state(pipeline, "me", desired="stopped")
    wait_until(lambda: not store.leases.assignments(pipeline))
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", given), 5)
    store.close()
