from __future__ import annotations

import threading

import pytest

from gauss.contracts.chunk import Chunk
from helpers.edges import Bench, framing, receive
from helpers.sinks import append, narrow
from helpers.waiting import wait_until


def test_latest_skips_what_a_slow_client_could_not_take(bench: Bench) -> None:
    topic = bench.topic(storage_size=100)
    sink = bench.sink(topic, read="latest")
    with narrow(sink) as sock:
        wait_until(lambda: sink.status.connections == 1)
        for number in range(300):
            append(topic, b"%0100000d\n" % number)
        topic.append(Chunk(b"the end\n", 1, 0, framing("newline", {"delimiter": "\n"})))
        found: list[bytes] = []
        stream = sock.makefile("rb")
        while not found or found[-1] != b"the end\n":
            found.append(stream.readline())
    numbers = [int(line[-10:]) for line in found[:-1]]
    assert numbers == sorted(set(numbers))
    assert len(numbers) < 300


def test_a_client_that_never_reads_holds_a_blocking_topic_back_and_is_named(bench: Bench) -> None:
    topic = bench.topic(storage_size=100)
    sink = bench.sink(topic)
    with narrow(sink) as sock:
        wait_until(topic.readers.all)
        done = threading.Thread(target=append, args=(topic, b"%09999d\n" * 2_000 % (*range(2_000),)))
        done.start()
        wait_until(lambda: topic.blocked() is not None)
        peer = "{}:{}".format(*sock.getsockname())
        wait_until(lambda: sink.status.clients[peer]["blocked_since_ms"] is not None)
        wait_until(lambda: topic.blocked() is not None)  # full again, since nothing is read any more
        blocked = topic.blocked()
        assert blocked is not None
        assert blocked.peer == peer
        received = 0
        while received < 200 * 10 * 10_000:
            received += len(sock.recv(1 << 20))
        done.join(60)
        assert not done.is_alive()
    assert topic.counters.dropped == 0


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_slow_client_is_disconnected_when_asked(bench: Bench, size: int) -> None:
    topic = bench.topic(storage_size=size)
    sink = bench.sink(topic, slow_client="disconnect", slow_client_bytes="1MiB")
    with narrow(sink), sink.connect() as good:
        wait_until(lambda: len(topic.readers.all()) == 2)
        for _ in range(100):  # one by one, so that the good client never falls behind on a busy machine
            append(topic, b"%09999d\n" * 10 % (*range(10),))
            assert len(receive(good, 100_000)) == 100_000
        wait_until(lambda: sink.status.connections == 1)
        assert "it does not read" in sink.status.detail


def test_overwritten_records_are_counted_as_missed(bench: Bench) -> None:
    topic = bench.topic(storage_size=100, write_full="overwrite")
    sink = bench.sink(topic)
    with narrow(sink) as sock:
        wait_until(topic.readers.all)
        reader = topic.readers.all()[0]
        for number in range(2_000):
            append(topic, b"%09999d\n" % number)
        received = b""
        while not received.endswith(b"%09999d\n" % 1_999):
            received += sock.recv(1 << 20)
        wait_until(lambda: reader.position == 2_000)
        assert len(received) // 10_000 + reader.missed_records == 2_000
        assert reader.missed_records > 0


def test_drain_gives_up_on_a_client_that_never_reads(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    with narrow(sink):
        wait_until(topic.readers.all)
        append(topic, b"".join(b"%09999d\n" % number for number in range(2_000)))
        sink.edge.drain(0.5)
        sink.edge.close()
    assert sink.status.connections == 0
    assert not topic.readers.all()
