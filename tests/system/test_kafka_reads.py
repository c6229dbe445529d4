"""Kafka topics as scans, HTTP and sinks read them: as rows by key, by time, and after they were made anew."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import connect

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from helpers.kafka import NOW, Given, SecuredBroker, produce, topic_name
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
FORMAT = """
[[formats]]
name = "account"
plugin = "json"
config = { fields = [{ name = "balance", type = "int64" }] }
"""
TOPIC = """
[[topics]]
name = "{name}"
storage = "kafka"
storage_config = {{ brokers = {brokers}, topic = "{topic}", partitions = 2, format = "account", key = "@key" }}
"""
SINK = """
[[processors]]
name = "{name}"
plugin = "{plugin}"
source = {{ topic = "{topic}", read = "{read}" }}
config = {{ port = {port}{more} }}
"""
LINES = ', output = { framing = "newline" }'
TOPICS = ("accounts", "moved", "paged", "anew")
"""One for each test."""
SINKS = {
    "rows": ("tcp-sink", "accounts", "snapshot", LINES + ', snapshot_end = "--"'),
    "page": ("ws-sink", "accounts", "snapshot", ""),
    "all": ("tcp-sink", "moved", "offset", LINES + ', start = "resume"'),
    "each": ("tcp-sink", "anew", "offset", LINES + ', start = "resume"'),
    "newest": ("ws-sink", "anew", "latest", ""),
}


class Accounts:
    """A topic of the run, and what sinks, scans and HTTP read from it."""

    def __init__(self, run: Run, settings: KafkaSettings, name: str, topic: str, ports: dict[str, int]) -> None:
        self.run, self.settings, self.name, self.topic, self.ports = run, settings, name, topic, ports

    def write(self, text: str, partition: int = 0, first_ts: int = NOW) -> None:
        """Writes balances such as `a=1`, and tombstones such as `a`."""
        pairs = [each.partition("=") for each in text.split()]
        records: list[Given] = [
            (b'{"balance":%s}' % value.encode() if mark else None, key.encode(), []) for key, mark, value in pairs
        ]
        produce(self.settings, self.topic, records, partition=partition, first_ts=first_ts)

    def lines(self, *args: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run.cli(*args, "--json").stdout.splitlines()]

    def balances(self, found: list[dict[str, Any]]) -> list[int]:
        return [json.loads(row["data"])["balance"] for row in found if row["data"]]

    def streamed(self, path: str) -> list[dict[str, Any]]:
        found = json.loads((self.run.data_dir / "engine.json").read_text())
        headers = {"Authorization": f"Bearer {found['token']}", "Accept": "application/x-ndjson"}
        request = urllib.request.Request(found["endpoint"] + path, headers=headers)
        with urllib.request.urlopen(request, timeout=20) as reply:
            return [json.loads(line) for line in reply.read().splitlines()]

    def snapshot(self) -> dict[str, int]:
        return {key: row["balance"] for key, row in self.run.api(f"/api/topics/{self.name}/snapshot").items()}

    def behind(self, sink: str) -> list[int]:
        return [row["behind"] for row in self.run.api("/api/readers")["readers"] if row["name"] == sink]


@pytest.fixture(scope="module")
def topics(kafka: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Accounts]]:
    """A run without Spark for all tests of this file."""
    settings, names = kafka.settings, {name: topic_name() for name in TOPICS}
    ports = {name: free_port() for name in SINKS}
    for topic in names.values():
        Admin(settings).create(topic, 2)
    brokers = json.dumps(settings.brokers)
    text = FORMAT + "".join(TOPIC.format(name=name, brokers=brokers, topic=topic) for name, topic in names.items())
    for name, (plugin, of, read, more) in SINKS.items():
        text += SINK.format(name=name, plugin=plugin, topic=of, read=read, port=ports[name], more=more)
    run = Run(tmp_path_factory.mktemp("reads"), text)
    try:
        run.start()
        yield {name: Accounts(run, settings, name, topic, ports) for name, topic in names.items()}
    finally:
        run.end()


def test_newest_record_of_each_key_is_read_by_scans_queries_http_and_sinks(topics: dict[str, Accounts]) -> None:
    accounts = topics["accounts"]
    run, records = accounts.run, [b'{"balance":3}', b'{"balance":4}', b'{"balance":5}']
    accounts.write("b=1 a=2 b=4 gone=6 gone", 0)
    accounts.write("a=3 c=5", 1, first_ts=NOW + 1_000)
    assert accounts.snapshot() == {"a": 3, "b": 4, "c": 5}
    found = accounts.lines("scan", "accounts", "select(.balance > 3) | {key, balance}", "--snapshot")
    assert found == [{"key": "b", "balance": 4}, {"key": "c", "balance": 5}]
    assert "3 rows" in run.cli("scan", "accounts", "--snapshot").stderr
    assert "ordered by key" in run.cli("scan", "accounts", "--snapshot", "--explain").stdout
    assert sorted(accounts.balances(accounts.lines("query", "accounts", "--snapshot"))) == [3, 4, 5]
    whole = accounts.lines("query", "accounts")
    assert sorted(accounts.balances(whole)) == [1, 2, 3, 4, 5, 6] and len(whole) == 7
    with socket.create_connection(("127.0.0.1", accounts.ports["rows"])) as connection:
        assert connection.makefile("rb").read().splitlines() == [*records, b"--"]
    with connect(f"ws://127.0.0.1:{accounts.ports['page']}/") as page:
        assert [message.encode() for message in page if isinstance(message, str)] == records
    refused = run.cli("scan", "accounts", "--snapshot", "--live", check=False)
    assert refused.returncode and "can't be read live" in refused.stderr
    letters = run.cli("query", "_dead", "--snapshot", check=False)
    assert letters.returncode and "has no snapshot" in letters.stderr


def test_reader_is_moved_and_appended_records_are_seen_by_tails(topics: dict[str, Accounts]) -> None:
    accounts = topics["moved"]
    run = accounts.run
    accounts.write("a=1 b=2 c=3")
    wait_until(lambda: run.topic("moved")["end"] == 3, 30, run.state)
    for to, wanted in (("earliest", [1, 2, 3]), ("2", [3]), ("-2", [2, 3]), ("earliest", [1, 2, 3])):
        run.cli("readers", "seek", "moved", "all", to)
        # A socket stays connected until its file is closed, too, and the sink would go on sending to that connection.
        with (
            socket.create_connection(("127.0.0.1", accounts.ports["all"]), timeout=60) as connection,
            connection.makefile("rb") as lines,
        ):
            assert [json.loads(lines.readline())["balance"] for _ in wanted] == wanted
    found = json.loads((run.data_dir / "engine.json").read_text())
    address = found["endpoint"].replace("http", "ws") + "/api/topics/moved/tail?start=end"
    with connect(address, additional_headers={"Authorization": f"Bearer {found['token']}"}) as tail:
        run.cli("send", "moved", text='{"balance":4}\n')
        assert json.loads(json.loads(tail.recv(30))["data"])["balance"] == 4
    run.cli("readers", "seek", "moved", "all", "end")
    assert accounts.behind("all") == [0]
    refused = run.cli("readers", "seek", "moved", "all", "99", check=False)
    assert "expected an offset from 0 to 4" in refused.stderr


def test_pages_of_a_time_range_have_its_records_alone_though_times_go_back(topics: dict[str, Accounts]) -> None:
    accounts = topics["paged"]
    hour = 3_600_000
    accounts.write("a=1 b=2", first_ts=NOW)
    accounts.write("c=3", first_ts=NOW - hour)
    accounts.write("d=4 e=5", first_ts=NOW + 10)
    accounts.write("f=6", first_ts=NOW + hour)
    accounts.write("g=7 h=8", first_ts=NOW + 20)
    wait_until(lambda: accounts.run.topic("paged")["end"] == 8, 30, accounts.run.state)
    asked = f"/api/topics/paged/query?from={NOW}&to={NOW + hour}&limit=2"
    found, after = [], ""
    while after is not None:
        page = accounts.run.api(asked + (f"&after={after}" if after else ""))
        found += accounts.balances(page["records"])
        after = page["next"]
    assert found == [1, 2, 4, 5, 7, 8]
    assert accounts.balances(accounts.streamed(asked + "&after=2")) == [4, 5]


def test_sinks_scans_and_readers_begin_at_the_start_of_a_topic_that_was_made_anew(topics: dict[str, Accounts]) -> None:
    accounts = topics["anew"]
    run, admin = accounts.run, Admin(accounts.settings)
    accounts.write(" ".join(f"k{number}={number}" for number in range(50)))
    with (
        socket.create_connection(("127.0.0.1", accounts.ports["each"])) as connection,
        connect(f"ws://127.0.0.1:{accounts.ports['newest']}/") as newest,
    ):
        lines = connection.makefile("rb")
        assert [json.loads(lines.readline())["balance"] for _ in range(50)] == list(range(50))
        while json.loads(newest.recv(60))["balance"] != 49:
            pass
        command = [GAUSS, "tap", "anew", "--start", "earliest", "--limit", "53", "--json"]
        tail = subprocess.Popen([*command, "--data-dir", str(run.data_dir)], stdout=subprocess.PIPE)
        assert tail.stdout is not None
        seen = [tail.stdout.readline() for _ in range(50)]
        inc = run.topic("anew")["inc"]
        admin.delete(accounts.topic)
        admin.create(accounts.topic, 1)
        accounts.write("a=100 b=101 c=102")
        wait_until(lambda: run.topic("anew")["inc"] != inc, 60, run.state)
        assert [json.loads(lines.readline())["balance"] for _ in range(3)] == [100, 101, 102]
        while json.loads(newest.recv(60))["balance"] != 102:
            pass
        seen += [tail.stdout.readline() for _ in range(3)]
        assert [json.loads(json.loads(line)["data"])["balance"] for line in seen] == [*range(50), 100, 101, 102]
        tail.wait(30)
    assert accounts.balances(accounts.lines("query", "anew")) == [100, 101, 102]
    assert accounts.snapshot() == {"a": 100, "b": 101, "c": 102}
    wait_until(lambda: accounts.behind("each") == [0], 30)
