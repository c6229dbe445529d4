from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from gauss.contracts.storage import Capacity, WriteFull
from gauss.plugins.processors.ws_sink import wire
from gauss.plugins.processors.ws_sink.encode import frames, is_text
from gauss.plugins.processors.ws_sink.spec import SPEC
from gauss.stream.engine.topics.table_topic import TableTopic
from gauss.stream.engine.topics.topic import Topic
from helpers.cases import cases
from helpers.certificates import Authority
from helpers.edges import Bench, Running
from helpers.logs import arrow
from helpers.tables import open_table, record
from helpers.waiting import wait_until


def sink(bench: Bench, topic: Topic, read: str = "offset", subscribe: str = "snapshots", **config: Any) -> Running:
    return bench.edge("ws-sink", config, topic, read, subscribe)


def join(running: Running, path: str = "/", **given: Any) -> ClientConnection:
    url = f"ws://127.0.0.1:{running.port}{path}"
    return connect(url, compression=None, max_size=None, legacy=True, **given)


def append(topic: Topic, *records: bytes) -> None:
    topic.append(arrow(*records))


def test_each_record_is_a_message_and_new_ones_follow(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, b'{"n":1}', b"", b"\xff\x00 binary")
    running = sink(bench, topic)
    with join(running) as client:
        assert [client.recv(30) for _ in range(3)] == ['{"n":1}', "", b"\xff\x00 binary"]
        append(topic, "grüß".encode())
        assert client.recv(30) == "grüß"
        wait_until(lambda: running.status.records == 4)
        wait_until(lambda: topic.readers.all()[0].position == 4)  # the position moves after they are counted
    wait_until(lambda: running.status.connections == 0)


def test_records_of_every_length_arrive_whole(bench: Bench) -> None:
    sizes = [0, 1, 125, 126, 127, 65_535, 65_536, 300_000]
    topic = bench.topic()
    append(topic, *(b"x" * size for size in sizes))
    with join(sink(bench, topic)) as client:
        assert [len(client.recv(30)) for _ in sizes] == sizes


_TEXT = st.text(max_size=80).map(str.encode)
_TORN = st.builds(
    lambda text, cut: text.encode("utf-8", "surrogatepass")[cut:], st.text(max_size=5), st.integers(-3, 3)
)


@settings(deadline=None, max_examples=cases(200))
@given(st.lists(st.binary(max_size=200) | _TEXT | _TORN, max_size=20))
def test_frames_are_those_of_the_library(records: list[bytes]) -> None:
    data = arrow(*records).data()

    def is_utf8(each: bytes) -> bool:
        try:
            return each.decode() is not None
        except UnicodeDecodeError:
            return False

    expected = b"".join(
        Frame(Opcode.TEXT if is_utf8(each) else Opcode.BINARY, each).serialize(mask=False) for each in records
    )
    assert frames(data, is_text(data)) == expected


def test_latest_gives_the_newest_to_a_new_client(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, b"1", b"2")
    with join(sink(bench, topic, "latest")) as client:
        assert client.recv(30) == "2"
        append(topic, b"3")
        assert client.recv(30) == "3"


@pytest.mark.parametrize(("start", "first"), [("end", "new"), (1, "b")])
def test_start_says_where_a_client_begins(bench: Bench, start: str | int, first: str) -> None:
    topic = bench.topic()
    append(topic, b"a", b"b")
    with join(sink(bench, topic, start=start)) as client:
        wait_until(topic.readers.all)
        append(topic, b"new")
        assert client.recv(30) == first


def test_a_format_makes_json_objects_and_buries_what_it_can_not_read(bench: Bench) -> None:
    from gauss.plugins.formats.csv.codec import CsvFormat
    from gauss.plugins.formats.csv.spec import CsvConfig

    fields = [{"name": "symbol", "type": "string"}, {"name": "bid", "type": "double"}]
    bench.formats["trade"] = CsvFormat(CsvConfig.model_validate({"fields": fields}))
    topic = bench.topic()
    append(topic, b"EURUSD,1.5", b"GBPUSD,much", b"USDJPY,151.25")
    for _ in range(2):
        with join(sink(bench, topic, input={"format": "trade"})) as client:
            found = [json.loads(client.recv(30)) for _ in range(2)]
        assert found == [{"symbol": "EURUSD", "bid": 1.5}, {"symbol": "USDJPY", "bid": 151.25}]
    assert [(letter.data, letter.offset, letter.stage) for letter in bench.dead[:1]] == [(b"GBPUSD,much", 1, "decode")]


def test_a_format_without_a_schema_decodes_each_record(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, b"\x81\xa1a\x01", b"\xc1")  # msgpack: {"a": 1}, and a byte that msgpack never uses
    append(topic, b"\x81\xa1a\x02")
    with join(sink(bench, topic, input={"format": "msgpack"})) as client:
        assert [json.loads(client.recv(30)) for _ in range(2)] == [{"a": 1}, {"a": 2}]
    assert len(bench.dead) == 1


def test_an_output_format_converts_records_to_messages(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, b'{"a":1}', b"broken")
    append(topic, b'{"a":2}')
    running = bench.edge("ws-sink", {"output": {"format": "msgpack"}}, topic, formats=("json", "msgpack"))
    with join(running) as client:
        assert [client.recv(30) for _ in range(2)] == [b"\x81\xa1a\x01", b"\x81\xa1a\x02"]
    assert [(letter.data, letter.offset, letter.stage) for letter in bench.dead] == [(b"broken", 1, "decode")]


@pytest.fixture
def table() -> TableTopic:
    return TableTopic("t", open_table(), Capacity(None, None, WriteFull.DROP))


def test_a_snapshot_is_sent_once_and_closed(bench: Bench, table: TableTopic) -> None:
    append(table, record("b", 1), record("a", 1), record("b", 2))
    with join(sink(bench, table, "snapshot")) as client:
        assert list(client) == [record("a", 1).decode(), record("b", 2).decode()]
        assert client.close_code == 1000


def test_a_subscriber_gets_the_newest_snapshot_and_a_follower_the_changes(bench: Bench, table: TableTopic) -> None:
    append(table, record("a", 1), record("b", 1))
    with join(sink(bench, table, "subscribe")) as whole, join(sink(bench, table, "subscribe", "changes")) as changes:
        assert [whole.recv(30), whole.recv(30)] == [changes.recv(30), changes.recv(30)]
        append(table, record("b", 2))
        assert [whole.recv(30), whole.recv(30)] == [record("a", 1).decode(), record("b", 2).decode()]
        assert changes.recv(30) == record("b", 2).decode()


def mark(kind: str, **given: int) -> dict[str, Any]:
    return {"_snapshot": kind, **given}


def said(client: ClientConnection, count: int) -> list[Any]:
    return [json.loads(client.recv(30)) for _ in range(count)]


def rows(*records: bytes) -> list[Any]:
    return [json.loads(each) for each in records]


def test_marks_tell_where_a_snapshot_begins_and_ends(bench: Bench, table: TableTopic) -> None:
    append(table, record("a", 1), record("b", 1))
    with join(sink(bench, table, "subscribe", snapshot_marks=True)) as client:
        expected = [mark("begin", version=2), *rows(record("a", 1), record("b", 1)), mark("end", version=2, rows=2)]
        assert said(client, 4) == expected
        append(table, record("b", 2))
        expected = [mark("begin", version=3), *rows(record("a", 1), record("b", 2)), mark("end", version=3, rows=2)]
        assert said(client, 4) == expected


def test_empty_table_is_a_snapshot_of_no_rows(bench: Bench, table: TableTopic) -> None:
    with join(sink(bench, table, "snapshot", snapshot_marks=True)) as client:
        assert said(client, 2) == [mark("begin", version=0), mark("end", version=0, rows=0)]


def test_changes_come_behind_the_end_of_the_snapshot(bench: Bench, table: TableTopic) -> None:
    append(table, *(record(f"k{n:05}", 1) for n in range(3000)))
    running = sink(bench, table, "subscribe", "changes", snapshot_marks=True)
    done = threading.Event()

    def change() -> None:
        version = 2
        while not done.is_set():
            append(table, record("k00000", version))
            version += 1

    writer = threading.Thread(target=change)
    with join(running) as client:
        writer.start()
        try:
            begin = json.loads(client.recv(30))
            snapshot = []
            while "_snapshot" not in (found := json.loads(client.recv(30))):
                snapshot.append(found)
            later = said(client, 5)
        finally:
            done.set()
            writer.join()
    assert begin["_snapshot"] == "begin" and found == mark("end", version=begin["version"], rows=3000)
    assert len(snapshot) == 3000 and not any("_snapshot" in row for row in later)


FOREIGN = "https://elsewhere.example"


@pytest.mark.parametrize(
    ("config", "origins", "status"),
    [
        ({}, [], 101),
        ({}, [FOREIGN], 403),
        ({}, ["null"], 403),
        ({}, [""], 403),
        ({}, ["http://[::1"], 403),
        ({}, ["http://localhost.elsewhere.example"], 403),
        ({}, ["http://localhost:3000"], 101),
        ({}, ["http://127.0.0.1"], 101),
        ({}, ["http://[::1]:80"], 101),
        ({}, ["http://localhost", FOREIGN], 403),
        ({"origins": [FOREIGN]}, [FOREIGN], 101),
        ({"origins": [FOREIGN]}, ["HTTPS://Elsewhere.example"], 101),
        ({"origins": [FOREIGN]}, ["https://another.example"], 403),
        ({"origins": [FOREIGN]}, ["http://localhost"], 403),
        ({"origins": ["*"]}, [FOREIGN], 101),
        ({"token": "secret"}, [FOREIGN], 101),
        ({"token": "secret", "origins": ["https://another.example"]}, [FOREIGN], 403),
    ],
)
def test_page_of_a_stranger_needs_a_token_or_an_entry(
    bench: Bench, config: dict[str, Any], origins: list[str], status: int
) -> None:
    topic = bench.topic()
    append(topic, b"x")
    running = sink(bench, topic, **config)
    found = 101
    try:
        headers = [("Origin", origin) for origin in origins]
        with join(running, "/?token=secret", additional_headers=headers) as client:
            assert client.recv(30) == "x"
    except InvalidStatus as refused:
        found = refused.response.status_code
    assert found == status


@pytest.mark.parametrize("origin", ["elsewhere.example", "https://elsewhere.example/page", "", "https://"])
def test_origin_that_is_none_is_a_fault(origin: str) -> None:
    with pytest.raises(ValueError, match="expected an origin such as"):
        SPEC.validate({"port": 0, "origins": [origin]})


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/other?token=secret", {}, 404),
        ("/quotes", {}, 401),
        ("/quotes?token=wrong", {}, 401),
        ("/quotes", {"Authorization": "Bearer wrong"}, 401),
        ("/quotes", {"Authorization": "Bearer secret"}, 101),
        ("/quotes?token=secret", {}, 101),
    ],
)
def test_path_and_token_open_the_door(bench: Bench, path: str, headers: dict[str, str], status: int) -> None:
    topic = bench.topic()
    append(topic, b"x")
    running = sink(bench, topic, path="/quotes", token="secret")
    if status == 101:
        with join(running, path, additional_headers=headers) as client:
            assert client.recv(30) == "x"
        return
    with pytest.raises(InvalidStatus) as caught:
        join(running, path, additional_headers=headers)
    assert caught.value.response.status_code == status
    wait_until(lambda: running.status.refused == 1)
    assert "secret" not in running.status.detail


def test_what_is_no_websocket_is_refused_and_holds_up_nobody(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, b"x")
    running = sink(bench, topic)
    with running.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 426 ")
    with running.connect() as sock:
        sock.sendall(b"\x16\x03\x01\r\n\r\n")
        assert sock.recv(1) == b""
    with running.connect(), join(running) as client:  # the first sends nothing at all
        wait_until(lambda: running.status.phases)
        assert client.recv(30) == "x"
    assert running.status.refused >= 2


def test_who_asks_for_nothing_is_refused_in_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "HANDSHAKE_SECONDS", 0.2)
    running = sink(bench, bench.topic())
    with running.connect() as sock:
        assert sock.recv(1) == b""
    assert running.status.detail.endswith(" refused: its request was not complete within 0.2 s")
    assert running.status.address == f"ws 127.0.0.1:{running.port}"


def test_the_handshake_is_a_phase_that_can_be_seen(bench: Bench) -> None:
    running = sink(bench, bench.topic())
    with running.connect():
        wait_until(lambda: running.status.shown() == "handshake")
        with join(running):
            wait_until(lambda: running.status.connections == 1)
            assert running.status.shown() == "running"


def test_tls_is_spoken_where_it_is_asked_for(bench: Bench, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("localhost")
    topic = bench.topic()
    append(topic, b"x" * 100_000, b"y")
    running = sink(bench, topic, tls={"cert": str(cert), "key": str(key)})
    context = ssl.create_default_context(cafile=str(authority.path))
    with connect(f"wss://localhost:{running.port}/", ssl=context, max_size=None) as client:
        assert client.recv(30) == "x" * 100_000
        assert client.ping().wait(30)
        assert client.recv(30) == "y"


def test_a_ping_is_answered_and_a_clients_words_are_thrown_away(bench: Bench) -> None:
    topic = bench.topic()
    with join(sink(bench, topic)) as client:
        client.send("hello?")
        assert client.ping().wait(30)
        append(topic, b"still here")
        assert client.recv(30) == "still here"


def test_a_stop_says_goodbye(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, b"x")
    running = sink(bench, topic)
    with join(running) as client:
        assert client.recv(30) == "x"
        running.edge.drain(30)
        with pytest.raises(ConnectionClosed):
            client.recv(30)
        assert client.close_code == 1001


@pytest.mark.system
def test_sixty_four_clients_get_everything_though_one_does_not_read(bench: Bench) -> None:
    topic = bench.topic(storage_bytes="64MiB")
    running = sink(bench, topic, slow_client="disconnect", slow_client_bytes="1MiB")
    slow = socket.create_connection(("127.0.0.1", running.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    clients = [join(running) for _ in range(63)]
    counts = [0] * 63

    def read(number: int) -> None:
        for _ in range(80):
            assert len(clients[number].recv(30)) == 80_000
            counts[number] += 1

    threads = [threading.Thread(target=read, args=(number,)) for number in range(63)]
    wait_until(lambda: running.status.connections == 64)
    for thread in threads:
        thread.start()

    def give(upto: int) -> None:
        """Ten more records, once all clients have those before: a good reader that waits for its turn is not slow."""
        append(topic, *[b"z" * 80_000] * 10)
        wait_until(lambda: min(counts) >= upto, 60)

    for upto in range(10, 81, 10):
        give(upto)
    for thread in threads:
        thread.join(60)
    assert counts == [80] * 63
    wait_until(lambda: running.status.connections == 63)
    slow.close()
    for client in clients:
        client.close()


def test_a_client_that_does_not_read_holds_the_topic_back(bench: Bench) -> None:
    topic = bench.topic(storage_size=10)
    running = sink(bench, topic)
    with join(running) as client:
        wait_until(topic.readers.all)
        done = threading.Event()

        def write() -> None:
            for _ in range(400):
                append(topic, b"z" * 100_000)
            done.set()

        threading.Thread(target=write, daemon=True).start()
        wait_until(lambda: topic.blocked() is not None)
        assert not done.is_set()
        for _ in range(400):
            client.recv(30)
        assert done.wait(30)


def test_the_spec_loads_without_heavy_modules() -> None:
    program = (
        "import sys, gauss.plugins.processors.ws_sink.spec;"
        "print([m for m in ('numpy', 'pyarrow', 'pyspark', 'websockets', 'ssl') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
    assert SPEC.framed == ""
