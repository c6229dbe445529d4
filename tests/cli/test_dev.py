"""`gauss dev` runs a server in the foreground, prints its URL, and stops it on exit."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

from gauss.cli import dev
from gauss.clients.embedded import systems
from gauss.clients.endpoint import read_endpoint
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from gauss.model.paths import DataDir
from helpers.run import GAUSS
from helpers.waiting import wait_until

if TYPE_CHECKING:
    from .conftest import Gauss

pytestmark = pytest.mark.system


class Dev:
    """A `gauss dev` process of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.processes: list[subprocess.Popen[str]] = []
        self._family: list[psutil.Process] = []

    def start(self, system: str) -> str:
        """Starts the process; returns the URL, of Kafka host:port."""
        command = [GAUSS, "dev", system, "--data-dir", str(self.data_dir), "--json"]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        stdout = self.processes[-1].stdout
        assert stdout is not None
        told = json.loads(stdout.readline())
        self._family += psutil.Process(self.processes[-1].pid).children(recursive=True)
        assert set(told) == {"bootstrap" if system == "kafka" else "url"}
        (address,) = told.values()
        return str(address)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Stops the process; returns its exit code and its output without the URL."""
        process = self.processes.pop()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def gone(self) -> bool:
        """Whether all processes that it started have ended."""
        return bool(self._family) and not any(each.is_running() for each in self._family)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Dev]:
    made = Dev(tmp_path / "data")
    yield made
    while made.processes:
        made.end(signal.SIGKILL)


def selected(url: str, query: str) -> str:
    """A value that ClickHouse returns over plain HTTP."""
    parts = urlsplit(url)
    request = urllib.request.Request(f"http://{parts.hostname}:{parts.port}{parts.path}", query.encode())
    request.add_header("Authorization", "Basic " + b64encode(f"{parts.username}:{parts.password}".encode()).decode())
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode().strip())


def test_the_choices_are_the_embedded_systems() -> None:
    chosen = get_type_hints(dev.command, vars(dev), include_extras=False)["system"]
    assert set(get_args(chosen)) == set(systems())


def test_postgres_has_logical_wal_keeps_its_data_and_leaves_no_process(server: Dev) -> None:
    url = server.start("postgres")
    with psycopg.connect(url) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        connection.execute("CREATE TABLE kept AS SELECT 7 AS a")
    assert server.end() == (0, "", "") and server.gone()
    assert server.start("postgres") == url
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT a FROM kept").fetchone() == (7,)
    assert server.end(signal.SIGINT) == (0, "", "") and server.gone()


def test_clickhouse_answers_over_http_with_the_credentials_of_the_url(server: Dev) -> None:
    url = server.start("clickhouse")
    assert url.startswith("http://") and selected(url, "SELECT 1") == "1"
    with pytest.raises(urllib.error.HTTPError):
        selected(url.replace("default:", "default:not-"), "SELECT 1")
    assert server.end() == (0, "", "") and server.gone()


def test_kafka_answers_at_its_bootstrap_address_and_leaves_no_process(server: Dev, gauss: Gauss) -> None:
    address = server.start("kafka")
    assert gauss("db", "url", "kafka", "--data-dir", str(server.data_dir)).stdout == f"{address}\n"
    assert len(Admin(KafkaSettings(brokers=[address])).create("t", 3).partitions) == 3
    assert server.end() == (0, "", "") and server.gone()


def test_a_killed_command_takes_its_server_with_it(server: Dev) -> None:
    server.start("postgres")
    server.end(signal.SIGKILL)
    wait_until(server.gone, what="the server's end")


def test_a_server_that_ends_is_reported(server: Dev) -> None:
    server.start("clickhouse")
    endpoint = read_endpoint(DataDir(server.data_dir).server("clickhouse"))
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGKILL)
    process = server.processes.pop()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 3 and "clickhouse server has ended" in json.loads(out)["error"]["message"]


def test_a_second_one_names_the_pid_of_the_first(server: Dev, gauss: Gauss) -> None:
    url = server.start("clickhouse")
    endpoint = read_endpoint(DataDir(server.data_dir).server("clickhouse"))
    assert endpoint is not None
    done = gauss("dev", "clickhouse", "--data-dir", str(server.data_dir))
    assert done.returncode == 3 and f"pid {endpoint.pid}" in done.stderr and "gauss db url" in done.stderr
    assert selected(url, "SELECT 1") == "1"


def test_on_a_terminal_the_url_is_one_line_between_rules(tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    command = [GAUSS, "dev", "clickhouse", "--data-dir", str(tmp_path)]
    environment = {**os.environ, "COLUMNS": "60", "TERM": "dumb"}
    process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment)
    os.close(side)
    with os.fdopen(terminal) as shown:
        try:
            lines = [shown.readline().strip() for _ in range(4)]
        finally:
            process.terminate()
            assert process.wait(60) == 0
    top, url, client, bottom = lines
    assert "is ready" in top and set(bottom) == {"─"}
    assert urlsplit(url).password and url.endswith("/default")
    assert f"gauss db url clickhouse --data-dir {tmp_path}" in client


@pytest.mark.parametrize("system", ["clickhouse", "postgres"])
def test_a_data_directory_that_is_a_file_is_one_error(gauss: Gauss, tmp_path: Path, system: str) -> None:
    (tmp_path / "file").touch()
    done = gauss("dev", system, "--data-dir", "file")
    assert done.returncode == 3 and "can't be used" in done.stderr and done.stderr.count("error: ") == 1


def test_an_unknown_system_is_a_usage_error(gauss: Gauss) -> None:
    done = gauss("dev", "mysql")
    assert done.returncode == 2 and "mysql" in done.stderr
