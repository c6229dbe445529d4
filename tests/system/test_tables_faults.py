"""Tables whose servers are down, killed, slow or full, or have lost a table or a column. The query waits and says for
what; nothing is lost or duplicated, and other processors continue.

`GAUSS_TABLE_DOWN_SECONDS=60` restarts the killed servers after a minute.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.endpoint import Endpoint
from gauss.model.paths import FORMAT_VERSION
from helpers.disks import small_file_system
from helpers.embedded import ask
from helpers.feeds import Collector, send
from helpers.proxy import Proxy
from helpers.run import Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]
SYSTEMS = ["clickhouse", "postgres"]
DOWN_SECONDS = float(os.environ.get("GAUSS_TABLE_DOWN_SECONDS", "3"))
pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(1800 + 4 * DOWN_SECONDS)]

HEAD = """
[spark]
master = "local[2]"

[[formats]]
name = "numbers"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }, { name = "note", type = "string" }] }
"""
TABLE = """
[[topics]]
name = "{system}"
storage = "{system}"
storage_config = {{ format = "numbers", flush_interval = "200ms" {address} }}

[[processors]]
name = "feed-{system}"
plugin = "tcp-source"
target = {{ topic = "{system}" }}
config = {{ port = {port}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}
"""
BESIDE = """
[[topics]]
name = "beside"
storage = "memory"

[[processors]]
name = "feed-beside"
plugin = "tcp-source"
target = {{ topic = "beside" }}
config = {{ port = {feed}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "sink-beside"
plugin = "tcp-sink"
source = {{ topic = "beside", read = "offset" }}
config = {{ port = {sink}, output = {{ framing = "newline", delimiter = "\\n" }} }}
"""


class Tables:
    """A run with a table in each system and a separate path from socket to socket."""

    def __init__(self, gauss: Make, addresses: dict[str, str]) -> None:
        self.feeds = {system: free_port() for system in SYSTEMS}
        self.beside, sink = free_port(), free_port()
        parts = [TABLE.format(system=s, address=addresses.get(s, ""), port=self.feeds[s]) for s in SYSTEMS]
        self.run = gauss("".join([HEAD, *parts, BESIDE.format(feed=self.beside, sink=sink)]))
        self.sent = dict.fromkeys(SYSTEMS, 0)
        self.endpoints: dict[str, Endpoint] = {}
        self._sink = sink
        self._collected: Collector | None = None
        self._passed = 0

    def send(self, system: str, count: int = 500) -> None:
        first, self.sent[system] = self.sent[system], self.sent[system] + count
        lines = (b'{"n":%d,"note":"%s"}\n' % (n, b"x" * 100) for n in range(first, first + count))
        send(self.feeds[system], b"".join(lines))

    def others_go_on(self) -> None:
        """Checks that a record passes from socket to socket."""
        if self._collected is None:
            self._collected = Collector(self._sink)
        self._passed += 1
        send(self.beside, b"%d\n" % self._passed)
        self._collected.wait(self._passed)

    def ask(self, system: str, query: str) -> Any:
        """The first row of a query; `None` while the server does not answer."""
        return ask(self.run.data_dir, system, query, self.endpoints.get(system))

    def count(self, system: str) -> int:
        found = self.ask(system, f"SELECT count(*) FROM {system}")
        return int(found[0]) if found else 0

    def arrives(self, system: str, first: int = 0, seconds: float = 240.0) -> None:
        """Checks that every record from `first` on is a row, once."""
        wanted = self.sent[system]
        wait_until(lambda: self.count(system) >= wanted - first, seconds, f"{wanted - first} rows in {system}")
        query = f"SELECT count(*), count(DISTINCT n), min(n), max(n) FROM {system}"
        assert wait_until(lambda: self.ask(system, query)) == (wanted - first, wanted - first, first, wanted - 1)

    def status(self, system: str) -> dict[str, Any]:
        """The table's internal query, as `gauss top` shows it."""
        rows: list[dict[str, Any]] = self.run.api("/api/processors")["processors"]
        return next(row for row in rows if row["name"] == f"_table.{system}")

    def waits(self, system: str, words: str) -> None:
        """Checks that the query's status and the health say what it waits for."""

        def told() -> bool:
            try:
                found, reasons = self.status(system), self.run.api("/api/health")["reasons"]
            except (OSError, ValueError, KeyError, StopIteration):
                return False
            # Both in the same poll. The query may just be trying again; then the next poll finds them.
            return found["state"] == "waiting" and words in found["detail"] and any(words in each for each in reasons)

        wait_until(told, 180, f"{system} to wait: {words}")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, EmbeddedServer]]:
    """Both servers, with directories outside the run's."""
    started = {system: ensure(system, tmp_path / system, port=free_port()) for system in SYSTEMS}
    yield started
    for server in started.values():
        server.stop()


def kill(server: EmbeddedServer) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.process = None


def test_servers_that_are_down_killed_slow_or_emptied_cost_no_row_and_stop_nobody(
    gauss: Make, servers: dict[str, EmbeddedServer], tmp_path: Path
) -> None:
    def start(system: str) -> None:
        servers[system] = ensure(system, tmp_path / system, port=tables.endpoints[system].port)

    with Proxy(servers["clickhouse"].endpoint.port) as proxy:
        ports = {"clickhouse": proxy.port, "postgres": servers["postgres"].endpoint.port}
        addresses = {
            system: f', host = "127.0.0.1", port = {ports[system]}, user = "{server.endpoint.user}", '
            f'password = "{server.endpoint.password}"'
            for system, server in servers.items()
        }
        tables = Tables(gauss, addresses)
        tables.endpoints = {system: server.endpoint for system, server in servers.items()}
        for server in servers.values():
            server.stop()

        # The servers are down at the start.
        tables.run.start(ready=False)
        tables.waits("clickhouse", "ClickHouse")
        tables.waits("postgres", "Postgres does not answer")
        tables.others_go_on()
        tables.send("clickhouse")
        for system in SYSTEMS:
            start(system)
        tables.run.wait_ready()  # also the table that has no records yet
        tables.send("postgres")
        for system in SYSTEMS:
            tables.arrives(system)

        # One is killed while records arrive, and restarted later; the other table continues.
        for system, other in (SYSTEMS, SYSTEMS[::-1]):
            tables.send(system, 2_000)
            kill(servers[system])
            tables.send(system)
            tables.send(other)
            tables.others_go_on()
            tables.arrives(other)
            tables.waits(system, "ClickHouse" if system == "clickhouse" else "Postgres does not answer")
            time.sleep(DOWN_SECONDS)
            start(system)
            tables.arrives(system)
            wait_until(lambda s=system: tables.status(s)["state"] == "running", 120)  # type: ignore[misc]

        # The server is slow: new records wait in the inbox.
        failures = tables.status("clickhouse")["failures"]
        proxy.bytes_per_second = 100_000
        tables.send("clickhouse", 5_000)
        tables.send("postgres")
        tables.others_go_on()
        tables.arrives("postgres")
        tables.arrives("clickhouse")
        assert tables.status("clickhouse")["failures"] <= failures  # reset at the next epoch
        proxy.bytes_per_second = 0

        # A column is dropped, then the table: both are created again, and new records are inserted.
        for system in SYSTEMS:
            before = tables.sent[system]
            assert tables.ask(system, f"ALTER TABLE {system} DROP COLUMN note") is not None
            tables.send(system)
            tables.arrives(system)
            noted = tables.ask(system, f"SELECT count(*), count(note) FROM {system} WHERE n >= {before}")
            assert noted == (500, 500)
            wait_until(lambda s=system: not tables.status(s)["behind"], 120, "the commit")  # type: ignore[misc]
            assert tables.ask(system, f"DROP TABLE {system}") is not None
            first = tables.sent[system]
            tables.send(system)
            tables.arrives(system, first)
        tables.others_go_on()
        said = tables.run.logs() + tables.run.output.read_text()
        for server in servers.values():
            assert server.endpoint.password not in said


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[Path]:
    """A data directory in which each server has its own, nearly full disk."""
    data_dir = tmp_path / "run0" / ".gauss"
    with contextlib.ExitStack() as disks:
        for system in SYSTEMS:
            disks.enter_context(small_file_system(data_dir / system, "400m"))
        (data_dir / "VERSION").write_text(f"{FORMAT_VERSION}\n")
        yield data_dir


def test_a_full_disk_is_shown_and_waited_for(small_disks: Path) -> None:
    made: list[Run] = []

    def make(config: str) -> Run:
        made.append(Run(small_disks.parent, config))
        return made[-1]

    tables = Tables(make, {})
    try:
        tables.run.start(seconds=180)
        for system in SYSTEMS:
            tables.send(system)
            tables.arrives(system)
        for system in SYSTEMS:
            with (small_disks / system / "ballast").open("wb") as ballast:
                left = os.statvfs(small_disks / system)
                try:
                    os.posix_fallocate(ballast.fileno(), 0, left.f_bavail * left.f_frsize)
                except OSError:
                    pass
            tables.send(system, 20_000)
        for system in SYSTEMS:
            wait_until(lambda s=system: tables.status(s)["state"] == "waiting", 180, f"{system} to wait")  # type: ignore[misc]
        tables.others_go_on()
        for system in SYSTEMS:
            (small_disks / system / "ballast").unlink()
            tables.arrives(system)
        tables.others_go_on()
    finally:
        made[0].end()
