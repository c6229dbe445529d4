"""Start, discovery, stop and crashes of embedded servers, the same tests for all. Kafka, which takes seconds to start,
has one test of its own (`kafka/test_broker.py`)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import psycopg
import pytest

from gauss.clients import embedded
from gauss.clients.embedded import EmbeddedServer, command, ensure, systems
from gauss.clients.endpoint import Endpoint, owned, read_endpoint
from gauss.model.errors import StorageError, Unavailable
from gauss.process.ready import spawn
from helpers.waiting import suspend, wait_until

pytestmark = pytest.mark.fault


def answers(endpoint: Endpoint) -> bool:
    """Whether the server runs a query."""
    if endpoint.scheme == "http":
        from gauss.clients.clickhouse.connect import connect

        with connect(endpoint) as client:
            return client.command("SELECT 1") == 1
    with psycopg.connect(endpoint.url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def listening(endpoint: Endpoint) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex((endpoint.host, endpoint.port)) == 0


def gone(server: EmbeddedServer) -> None:
    wait_until(lambda: not listening(server.endpoint), what="the server's end")


@pytest.fixture(params=[name for name in systems() if name != "kafka"])
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_server_that_takes_too_long_to_start_is_said_to(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "START_SECONDS", 0.01)
    with pytest.raises(Unavailable, match=f"the embedded {system} in .* did not start within 0 s"):
        ensure(system, tmp_path / system)
    wait_until(lambda: not owned(tmp_path / system), 30, "the end of its owner")


def test_systems_are_the_client_packages_that_have_an_owner() -> None:
    assert set(systems()) == {"clickhouse", "kafka", "postgres"}


def test_a_server_starts_is_found_again_and_stops(system: str, directory: Path) -> None:
    with ensure(system, directory) as server:
        assert answers(server.endpoint)
        again = ensure(system, directory)
        assert again.process is None and again.endpoint == server.endpoint
        again.stop()
        assert answers(server.endpoint)
        for name in ("endpoint.json", "identity.json"):
            assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
        arguments = " ".join(psutil.Process(server.endpoint.pid).cmdline())
        assert server.endpoint.password not in arguments and server.endpoint.password not in repr(server.endpoint)
    assert not listening(server.endpoint)
    assert read_endpoint(directory) is None and not owned(directory)


def test_a_server_gets_no_variable_that_may_hold_a_secret(
    system: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2-of-the-cloud")
    monkeypatch.setenv("GAUSS_PG_PASSWORD", "hunter2-of-the-config")
    with ensure(system, directory) as server:
        owner = psutil.Process(server.endpoint.pid)
        found = [owner.environ()]
        for child in owner.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # Postgres starts and ends background processes
                found.append(child.environ())
        assert "hunter2" not in str(found)
        assert found[0]["PATH"] == os.environ["PATH"]


def test_address_and_secret_outlive_a_restart_unless_somebody_took_the_port(system: str, directory: Path) -> None:
    with ensure(system, directory) as first:
        pass
    with ensure(system, directory) as second:
        assert second.endpoint.url == first.endpoint.url
        assert answers(second.endpoint)
    with socket.create_server(("127.0.0.1", first.endpoint.port)), ensure(system, directory) as third:
        assert third.endpoint.port != first.endpoint.port
        assert third.endpoint.password == first.endpoint.password
        assert answers(third.endpoint)


def test_of_many_starters_at_once_one_wins_and_all_get_the_same_server(system: str, directory: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        servers = list(pool.map(lambda _: ensure(system, directory), range(3)))
    try:
        assert len({server.endpoint for server in servers}) == 1
        assert sum(server.process is not None for server in servers) == 1
    finally:
        for server in servers:
            server.stop()


def test_a_killed_owner_loses_nothing_acknowledged_and_starts_again(system: str, directory: Path) -> None:
    for life in range(3):
        with ensure(system, directory) as server:
            write_one(server.endpoint, life)
            assert server.process
            server.process.kill()
            server.process.wait()
    with ensure(system, directory) as server:
        assert read_all(server.endpoint) == [0, 1, 2]


def write_one(endpoint: Endpoint, number: int) -> None:
    if endpoint.scheme == "http":
        from gauss.clients.clickhouse.connect import connect

        with connect(endpoint) as client:
            client.command("CREATE TABLE IF NOT EXISTS t (a Int64) ENGINE = MergeTree ORDER BY a")
            client.insert("t", [[number]], column_names=["a"], settings={"async_insert": 0})
        return
    with psycopg.connect(endpoint.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (a bigint)")
        connection.execute("INSERT INTO t VALUES (%s)", [number])


def read_all(endpoint: Endpoint) -> list[int]:
    query = "SELECT a FROM t ORDER BY a"
    if endpoint.scheme == "http":
        from gauss.clients.clickhouse.connect import connect

        with connect(endpoint) as client:
            return [row[0] for row in client.query(query).result_rows]
    with psycopg.connect(endpoint.url) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


_STARTER = """
import sys, time
from pathlib import Path
from gauss.clients.embedded import ensure
server = ensure(sys.argv[1], Path(sys.argv[2]))
print(server.endpoint.pid, flush=True)
time.sleep(600)
"""


def test_the_server_ends_with_the_process_that_started_it_however_that_ends(system: str, directory: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", _STARTER, system, str(directory)], stdout=subprocess.PIPE)
    assert starter.stdout
    pid = int(starter.stdout.readline())
    found = read_endpoint(directory)
    assert found and found.pid == pid and answers(found)
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    starter.kill()
    starter.wait()
    starter.stdout.close()
    psutil.wait_procs(family, timeout=60)
    assert not any(process.is_running() for process in family)
    assert not owned(directory)


def test_under_a_supervisor_it_reports_readiness_and_ends_on_term(system: str, directory: Path) -> None:
    process, ready = spawn(command(system, directory), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with os.fdopen(ready) as lines:
        message = json.loads(lines.readline())
        assert lines.read() == "", "the descriptor is let go"
    endpoint = read_endpoint(directory)
    assert message["ready"] and endpoint and message["port"] == endpoint.port and answers(endpoint)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


_ROBBED = """
import socket, sys
from gauss.clients.clickhouse.owner import EmbeddedClickHouse
from gauss.clients.owner import own
from gauss.clients.postgres.owner import EmbeddedPostgres
taken = []
class Robbed({"clickhouse": EmbeddedClickHouse, "postgres": EmbeddedPostgres}[sys.argv[1]]):
    def start(self, directory, known):
        if not taken:
            taken.append(socket.create_server(("127.0.0.1", known.port)))
            print(known.port, flush=True)
        return super().start(directory, known)
own(Robbed(), [sys.argv[2], "--watch-stdin"])
"""


def test_a_port_that_somebody_takes_while_the_server_starts_is_changed_for_another(
    system: str, directory: Path
) -> None:
    command = [sys.executable, "-c", _ROBBED, system, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        taken = int(owner.stdout.readline())
        found = wait_until(lambda: read_endpoint(directory), 60, "an endpoint")
        assert found.port != taken and answers(found)
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(20) is not None


def test_a_directory_of_somebody_else_is_refused_in_words(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ensure("clickhouse", directory):
        monkeypatch.setattr("gauss.clients.embedded.owned", lambda _: False)
        with pytest.raises(StorageError, match="belongs to another process"):
            ensure("clickhouse", directory)


def test_a_request_under_way_is_finished_before_the_server_ends(directory: Path) -> None:
    from gauss.clients.clickhouse.connect import connect

    with ensure("clickhouse", directory) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client, watch = connect(server.endpoint), connect(server.endpoint)
        slow = pool.submit(client.command, "SELECT sum(sleepEachRow(0.5)) FROM numbers(3) SETTINGS max_block_size = 1")
        seen = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT sum(sleepEachRow%'"
        wait_until(lambda: slow.done() or watch.command(seen), what="the request under way")
        server.stop()
        assert slow.result() == 0


def test_a_postgres_that_outlived_its_owner_is_ended_by_the_next(directory: Path) -> None:
    with ensure("postgres", directory) as server:
        write_one(server.endpoint, 7)
        owner = psutil.Process(server.endpoint.pid)
        postmaster = owner.children()[0]
        suspend(postmaster)  # so that it cannot react to the end of its owner
        assert server.process
        server.process.kill()
        server.process.wait()
        assert postmaster.is_running()
        resume = threading.Timer(1.0, postmaster.resume)
        resume.start()
        with ensure("postgres", directory) as next_server:
            resume.join()
            assert read_all(next_server.endpoint) == [7]
            assert not postmaster.is_running() or postmaster.status() == psutil.STATUS_ZOMBIE
