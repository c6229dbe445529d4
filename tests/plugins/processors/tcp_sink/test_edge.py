from __future__ import annotations

import os
import random
import socket
import struct
import threading

import pytest

from helpers.edges import PREFIXED, Bench, receive, receive_all
from helpers.sinks import append, lines
from helpers.waiting import wait_until


def test_a_client_gets_what_is_there_and_what_comes(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 3))
    sink = bench.sink(topic)
    with sink.connect() as sock:
        assert receive(sock, 21) == lines(0, 3)
        append(topic, lines(3, 5))
        assert receive(sock, 14) == lines(3, 5)
        wait_until(lambda: sink.status.records == 5)
        wait_until(lambda: topic.readers.all()[0].position == 5)  # the position moves after they are counted


def test_each_client_has_a_cursor_of_its_own(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    append(topic, lines(0, 5))
    with sink.connect() as one:
        assert receive(one, 35) == lines(0, 5)
        with sink.connect() as two:
            assert receive(two, 35) == lines(0, 5)
            append(topic, lines(5, 6))
            assert receive(one, 7) == receive(two, 7) == lines(5, 6)
            assert len(sink.status.clients) == 2
    wait_until(lambda: not topic.readers.all())


@pytest.mark.parametrize(("start", "first"), [("earliest", 0), ("end", 4), (2, 2)])
def test_start_says_where_a_client_begins(bench: Bench, start: str | int, first: int) -> None:
    topic = bench.topic()
    append(topic, lines(0, 4))
    sink = bench.sink(topic, start=start)
    with sink.connect() as sock:
        wait_until(lambda: sink.status.connections == 1 and topic.readers.all())
        append(topic, lines(4, 6))
        expected = lines(first, 6)
        assert receive(sock, len(expected)) == expected


def test_equal_framing_sends_the_very_bytes(bench: Bench) -> None:
    topic = bench.topic()
    contents = [random.Random(seed).randbytes(seed % 400) for seed in range(3_000)]
    wire = b"".join(struct.pack(">I", len(content)) + content for content in contents)
    append(topic, wire, PREFIXED)
    with bench.sink(topic, output=PREFIXED).connect() as sock:
        assert receive(sock, len(wire)) == wire


def test_another_framing_is_framed_anew(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 2_000))
    with bench.sink(topic, output=PREFIXED).connect() as sock:
        wire = b"".join(struct.pack(">I", len(line)) + line for line in lines(0, 2_000).splitlines())
        assert receive(sock, len(wire)) == wire


def test_a_record_that_the_framing_cannot_carry_is_one_dead_letter(bench: Bench) -> None:
    topic = bench.topic()
    good, bad = b"\0\0\0\4good", b"\0\0\0\5a\nbad"
    append(topic, good + bad + good, PREFIXED)
    sink = bench.sink(topic)
    for _ in range(2):  # the second client meets it too
        with sink.connect() as sock:
            assert receive(sock, 10) == b"good\ngood\n"
    (letter,) = bench.dead
    assert (letter.stage, letter.reason, letter.offset, letter.data) == ("encode", "unfit", 1, b"a\nbad")
    assert (letter.topic, letter.inc, letter.processor) == ("t", topic.inc, "tcp-sink")


def test_records_of_several_frame_sizes_are_cut_by_a_fixed_size_sink(bench: Bench) -> None:
    topic = bench.topic()
    hundred = {"framing": "fixed_size", "frame_size": 100}
    data = os.urandom(5_000)
    append(topic, data, hundred)
    with bench.sink(topic, output={"framing": "fixed_size", "frame_size": 10}).connect() as sock:
        assert receive(sock, 5_000) == data
    with bench.sink(topic, output={"framing": "fixed_size", "frame_size": 30}).connect():
        wait_until(lambda: len(bench.dead) == 50)


def test_latest_gives_the_current_record_at_once_and_then_only_newer_ones(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 5))
    sink = bench.sink(topic, read="latest")
    with sink.connect() as sock:
        assert receive(sock, 7) == b"line 4\n"
        append(topic, lines(5, 9))
        assert receive(sock, 7) == b"line 8\n"
    assert not topic.readers.all()


def test_a_client_that_went_away_is_noticed_on_a_quiet_topic(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    for _ in range(50):
        with sink.connect() as sock:
            sock.sendall(b"what a sink's client says is ignored")
    wait_until(lambda: sink.status.accepted == 50 and sink.status.connections == 0)
    assert not topic.readers.all()
    wait_until(lambda: sink.status.clients == {})


def test_a_client_that_resets_disturbs_nobody(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    with sink.connect() as good:
        bad = sink.connect()
        bad.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        bad.close()
        append(topic, lines(0, 9))
        assert receive(good, 63) == lines(0, 9)
        wait_until(lambda: sink.status.connections == 1)


def test_a_seek_moves_a_connected_client(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 5))
    with bench.sink(topic).connect() as sock:
        assert receive(sock, 35) == lines(0, 5)
        wait_until(lambda: topic.readers.get("tcp-sink").position == 5)
        topic.seek("tcp-sink", 3)
        assert receive(sock, 14) == lines(3, 5)


def test_drain_sends_what_the_topic_holds_and_ends_the_stream(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    wire = b"".join(b"%09999d\n" % number for number in range(1_000))
    with sink.connect() as sock:
        wait_until(topic.readers.all)
        append(topic, wire)
        draining = threading.Thread(target=sink.edge.drain, args=(60,))
        draining.start()
        assert receive_all(sock) == wire
        draining.join(60)
        assert not draining.is_alive()
    assert sink.status.connections == 0


def test_a_source_and_a_sink_around_one_topic_move_everything(bench: Bench) -> None:
    topic = bench.topic(storage_size=500)
    source, sink = bench.source(topic), bench.sink(topic)
    wire = lines(0, 100_000)
    with sink.connect() as out, source.connect() as into:
        wait_until(topic.readers.all)
        sender = threading.Thread(target=into.sendall, args=(wire,))
        sender.start()
        assert receive(out, len(wire)) == wire
        sender.join(10)


def test_each_client_gets_a_container_header_of_its_own(bench: Bench) -> None:
    import pyarrow as pa

    batch = pa.record_batch({"n": pa.array([1, 2, 3])})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        for _ in range(3):
            writer.write_batch(batch)
    arrow = {"framing": "arrow_ipc_streaming"}
    topic = bench.topic()
    source, sink = bench.source(topic, input=arrow), bench.sink(topic, output=arrow)
    with source.connect() as into:
        into.sendall(stream.getvalue().to_pybytes())
    wait_until(lambda: topic.version() == 3)
    for _ in range(2):
        with sink.connect() as out, pa.ipc.open_stream(out.makefile("rb")) as reader:
            assert [reader.read_next_batch().column("n").to_pylist() for _ in range(3)] == [[1, 2, 3]] * 3
