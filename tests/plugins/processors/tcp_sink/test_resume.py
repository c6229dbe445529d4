from __future__ import annotations

import socket
import threading

import pytest

from helpers.edges import Bench, receive
from helpers.sinks import append, lines, narrow
from helpers.waiting import wait_until


def test_resume_goes_on_at_the_first_record_that_the_peer_had_not_wholly(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic, start="resume")
    wanted = [b"%09999d\n" % number for number in range(2_000)]
    append(topic, b"".join(wanted))
    got: list[bytes] = []
    for turn in range(5):
        with narrow(sink) as sock:
            data = receive(sock, 3_000_000 + turn)
        got.append(data)
        wait_until(lambda: sink.status.connections == 0)
    with sink.connect() as sock:
        rest = b""
        while not rest.endswith(wanted[-1]):
            rest += sock.recv(1 << 20)
    got.append(rest)
    # Each connection starts at a record boundary; only bytes that were in the peer's kernel and never read may be
    # missing.
    previous = 0
    for data in got:
        first = int(data[9990:9999])
        assert data == b"".join(wanted)[first * 10_000 :][: len(data)]
        assert first <= previous + 10, "more was skipped than a small window holds"
        previous = (first * 10_000 + len(data)) // 10_000
    wait_until(lambda: topic.readers.get("tcp-sink").position >= 1_999)


def test_resume_holds_the_topic_while_nobody_is_connected(bench: Bench) -> None:
    topic = bench.topic(storage_size=10)
    sink = bench.sink(topic, start="resume")
    done = threading.Thread(target=append, args=(topic, lines(0, 30)))
    done.start()
    wait_until(lambda: topic.blocked() is not None)
    assert topic.version() == 10
    with sink.connect() as sock:
        assert receive(sock, len(lines(0, 30))) == lines(0, 30)
    done.join(60)
    assert not done.is_alive()


def test_with_resume_a_second_client_waits_for_the_first_to_go(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic, start="resume")
    append(topic, lines(0, 5))
    with sink.connect() as first:
        assert receive(first, 35) == lines(0, 5)
        with sink.connect() as second:
            second.settimeout(0.4)
            with pytest.raises(TimeoutError):
                second.recv(1)
            second.settimeout(20)
            wait_until(lambda: topic.readers.get("tcp-sink").position == 5)
            first.close()
            append(topic, lines(5, 8))
            assert receive(second, 21).endswith(b"line 7\n")


def test_a_client_sink_sends_and_resumes_after_a_lost_connection(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 5))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        bench.sink(topic, transport="tcp-client", host="127.0.0.1", port=server.getsockname()[1])
        with server.accept()[0] as peer:
            assert receive(peer, 35) == lines(0, 5)
            wait_until(lambda: topic.readers.get("tcp-sink").position == 5)
        append(topic, lines(5, 9))
        with server.accept()[0] as peer:
            assert receive(peer, 28) == lines(5, 9)


def test_resume_finds_the_record_in_a_file_topic_that_is_framed_anew(bench: Bench) -> None:
    topic = bench.topic("file")
    sink = bench.sink(topic, start="resume")
    wire = b"".join(b"%09999d\n" % number for number in range(1_000))
    append(topic, wire)
    with narrow(sink) as sock:
        assert receive(sock, 2_000_000) == wire[:2_000_000]
    wait_until(lambda: sink.status.connections == 0)
    position = topic.readers.get("tcp-sink").position
    assert 200 <= position < 260
    with sink.connect() as sock:
        assert receive(sock, len(wire) - position * 10_000) == wire[position * 10_000 :]
