"""Records of logs as messages of a WebSocket."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from gauss.plugins.processors.ws_sink.encode import frames, is_text
from gauss.plugins.processors.ws_sink.spec import SPEC
from helpers.cases import cases
from helpers.edges import Bench
from helpers.logs import arrow
from helpers.waiting import wait_until
from helpers.ws_sinks import append, join, sink


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
