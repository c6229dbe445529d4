from __future__ import annotations

import os
import random
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import pytest

from gauss.contracts.chunk import Chunk
from gauss.plugins.storages.file.log import TAIL_BYTES
from gauss.stream.engine.topic import Topic
from helpers.certificates import Authority
from helpers.edges import NEWLINE, PREFIXED, Bench, Running, framing, receive, receive_all, until


def lines(start: int, stop: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, stop))


def append(topic: Topic, data: bytes, parameters: dict[str, object] | None = None) -> None:
    """Appends framed bytes as a source would."""
    given = dict(parameters or NEWLINE)
    built = framing(str(given.pop("framing")), given)
    frames = built.splitter(16 << 20).feed(data)
    topic.append(Chunk(frames.payload, frames.count, time.time_ns() // 1_000_000, built if built.raw else None))


def narrow(sink: Running) -> socket.socket:
    """A client with a small window, so that little is on its way when it does not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", sink.port))
    return sock


def test_a_client_gets_what_is_there_and_what_comes(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 3))
    sink = bench.sink(topic)
    with sink.connect() as sock:
        assert receive(sock, 21) == lines(0, 3)
        append(topic, lines(3, 5))
        assert receive(sock, 14) == lines(3, 5)
        until(lambda: sink.status.records == 5)
        assert topic.readers.all()[0].position == 5


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
    until(lambda: not topic.readers.all())


@pytest.mark.parametrize(("start", "first"), [("earliest", 0), ("end", 4), (2, 2)])
def test_start_says_where_a_client_begins(bench: Bench, start: str | int, first: int) -> None:
    topic = bench.topic()
    append(topic, lines(0, 4))
    sink = bench.sink(topic, start=start)
    with sink.connect() as sock:
        until(lambda: sink.status.connections == 1 and topic.readers.all())
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
        until(lambda: len(bench.dead) == 50)


def test_latest_gives_the_current_record_at_once_and_then_only_newer_ones(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 5))
    sink = bench.sink(topic, read="latest")
    with sink.connect() as sock:
        assert receive(sock, 7) == b"line 4\n"
        append(topic, lines(5, 9))
        assert receive(sock, 7) == b"line 8\n"
    assert not topic.readers.all()


def test_latest_skips_what_a_slow_client_could_not_take(bench: Bench) -> None:
    topic = bench.topic(storage_size=100)
    sink = bench.sink(topic, read="latest")
    with narrow(sink) as sock:
        until(lambda: sink.status.connections == 1)
        for number in range(300):
            append(topic, b"%0100000d\n" % number)
        time.sleep(0.3)
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
        until(topic.readers.all)
        done = threading.Thread(target=append, args=(topic, b"%09999d\n" * 2_000 % (*range(2_000),)))
        done.start()
        until(lambda: topic.blocked() is not None)
        peer = "{}:{}".format(*sock.getsockname())
        until(lambda: sink.status.clients[peer]["blocked_since_ms"] is not None)
        blocked = topic.blocked()
        assert blocked is not None
        assert blocked.peer == peer
        received = 0
        while received < 200 * 10 * 10_000:
            received += len(sock.recv(1 << 20))
        done.join(20)
        assert not done.is_alive()
    assert topic.counters.dropped == 0


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_slow_client_is_disconnected_when_asked(bench: Bench, size: int) -> None:
    topic = bench.topic(storage_size=size)
    sink = bench.sink(topic, slow_client="disconnect", slow_client_bytes="1MiB")
    with narrow(sink), sink.connect() as good:
        until(lambda: len(topic.readers.all()) == 2)
        taken = threading.Thread(target=receive, args=(good, 100 * 100_000))
        taken.start()
        for _ in range(100):
            append(topic, b"%09999d\n" * 10 % (*range(10),))
        taken.join(20)
        assert not taken.is_alive()
        until(lambda: sink.status.connections == 1)


def test_a_client_that_went_away_is_noticed_on_a_quiet_topic(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    for _ in range(50):
        with sink.connect() as sock:
            sock.sendall(b"what a sink's client says is ignored")
    until(lambda: sink.status.accepted == 50 and sink.status.connections == 0)
    assert not topic.readers.all()
    assert sink.status.clients == {}


def test_a_client_that_resets_disturbs_nobody(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    with sink.connect() as good:
        bad = sink.connect()
        bad.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        bad.close()
        append(topic, lines(0, 9))
        assert receive(good, 63) == lines(0, 9)
        until(lambda: sink.status.connections == 1)


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
        until(lambda: sink.status.connections == 0)
    with sink.connect() as sock:
        rest = b""
        while not rest.endswith(wanted[-1]):
            rest += sock.recv(1 << 20)
    got.append(rest)
    # Each turn starts at a record's border; only what the peer's kernel held and nobody read may be missing.
    previous = 0
    for data in got:
        first = int(data[9990:9999])
        assert data == b"".join(wanted)[first * 10_000 :][: len(data)]
        assert first <= previous + 10, "more was skipped than a small window holds"
        previous = (first * 10_000 + len(data)) // 10_000
    assert topic.position_of("tcp-sink") >= 1_999


def test_resume_holds_the_topic_while_nobody_is_connected(bench: Bench) -> None:
    topic = bench.topic(storage_size=10)
    sink = bench.sink(topic, start="resume")
    done = threading.Thread(target=append, args=(topic, lines(0, 30)))
    done.start()
    until(lambda: topic.blocked() is not None)
    assert topic.version() == 10
    with sink.connect() as sock:
        assert receive(sock, len(lines(0, 30))) == lines(0, 30)
    done.join(10)
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
            until(lambda: topic.position_of("tcp-sink") == 5)
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
            until(lambda: topic.position_of("tcp-sink") == 5)
        append(topic, lines(5, 9))
        with server.accept()[0] as peer:
            assert receive(peer, 28) == lines(5, 9)


def test_a_seek_moves_a_connected_client(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, lines(0, 5))
    with bench.sink(topic).connect() as sock:
        assert receive(sock, 35) == lines(0, 5)
        until(lambda: topic.position_of("tcp-sink") == 5)
        topic.seek("tcp-sink", 3)
        assert receive(sock, 14) == lines(3, 5)


def test_overwritten_records_are_counted_as_missed(bench: Bench) -> None:
    topic = bench.topic(storage_size=100, write_full="overwrite")
    sink = bench.sink(topic)
    with narrow(sink) as sock:
        until(topic.readers.all)
        reader = topic.readers.all()[0]
        for number in range(2_000):
            append(topic, b"%09999d\n" % number)
        received = b""
        while not received.endswith(b"%09999d\n" % 1_999):
            received += sock.recv(1 << 20)
        until(lambda: reader.position == 2_000)
        assert len(received) // 10_000 + reader.missed_records == 2_000
        assert reader.missed_records > 0


def test_tls_carries_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    topic = bench.topic()
    sink = bench.sink(topic, tls={"cert": "server.pem", "key": "server.key"})
    context = ssl.create_default_context(cafile=str(authority.path))
    with sink.connect() as sock, context.wrap_socket(sock, server_hostname="localhost") as tls:
        for start in range(0, 50_000, 1_000):
            append(topic, lines(start, start + 1_000))
        wire = lines(0, 50_000)
        assert receive(tls, len(wire)) == wire
    until(lambda: sink.status.connections == 0)


def test_a_slow_tls_client_gets_every_byte(bench: Bench, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    topic = bench.topic()
    sink = bench.sink(topic, tls={"cert": "server.pem", "key": "server.key"})
    context = ssl.create_default_context(cafile=str(authority.path))
    wire = b"".join(b"%09999d\n" % number for number in range(1_000))
    with narrow(sink) as sock, context.wrap_socket(sock, server_hostname="localhost") as tls:
        append(topic, wire)
        time.sleep(0.8)  # some sends time out in between
        assert receive(tls, len(wire)) == wire


def test_drain_sends_what_the_topic_holds_and_ends_the_stream(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    wire = b"".join(b"%09999d\n" % number for number in range(1_000))
    with sink.connect() as sock:
        until(topic.readers.all)
        append(topic, wire)
        draining = threading.Thread(target=sink.edge.drain, args=(10,))
        draining.start()
        assert receive_all(sock) == wire
        draining.join(10)
        assert not draining.is_alive()
    assert sink.status.connections == 0


def test_drain_ends_a_tls_stream_with_a_goodbye(bench: Bench, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    topic = bench.topic()
    sink = bench.sink(topic, tls={"cert": "server.pem", "key": "server.key"})
    context = ssl.create_default_context(cafile=str(authority.path))
    append(topic, lines(0, 3))
    with (
        sink.connect() as sock,
        context.wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=False) as tls,
    ):
        assert receive(tls, 21) == lines(0, 3)
        draining = threading.Thread(target=sink.edge.drain, args=(5,))
        draining.start()
        assert tls.recv(1) == b""
    draining.join(5)


def test_drain_gives_up_on_a_client_that_never_reads(bench: Bench) -> None:
    topic = bench.topic()
    sink = bench.sink(topic)
    with narrow(sink):
        until(topic.readers.all)
        append(topic, b"".join(b"%09999d\n" % number for number in range(2_000)))
        began = time.monotonic()
        sink.edge.drain(0.5)
        sink.edge.close()
        assert time.monotonic() - began < 6
    assert sink.status.connections == 0
    assert not topic.readers.all()


def test_a_source_and_a_sink_around_one_topic_move_everything(bench: Bench) -> None:
    topic = bench.topic(storage_size=500)
    source, sink = bench.source(topic), bench.sink(topic)
    wire = lines(0, 100_000)
    with sink.connect() as out, source.connect() as into:
        until(topic.readers.all)
        sender = threading.Thread(target=into.sendall, args=(wire,))
        sender.start()
        assert receive(out, len(wire)) == wire
        sender.join(10)


@pytest.mark.parametrize("stored", ["newline", "length_prefixed"])
def test_a_file_topic_is_sent_whether_or_not_it_keeps_the_same_framing(bench: Bench, stored: str) -> None:
    topic = bench.topic("file", framing=stored, **({"delimiter": "\n"} if stored == "newline" else {}))
    source, sink = bench.source(topic), bench.sink(topic)
    wire = lines(0, 50_000)
    with sink.connect() as out, source.connect() as into:
        sender = threading.Thread(target=into.sendall, args=(wire,))
        sender.start()
        assert receive(out, len(wire)) == wire
        sender.join(10)
    with sink.connect() as late:
        assert receive(late, len(wire)) == wire


def test_resume_finds_the_record_in_a_file_topic_that_is_framed_anew(bench: Bench) -> None:
    topic = bench.topic("file")
    sink = bench.sink(topic, start="resume")
    wire = b"".join(b"%09999d\n" % number for number in range(1_000))
    append(topic, wire)
    with narrow(sink) as sock:
        assert receive(sock, 2_000_000) == wire[:2_000_000]
    until(lambda: sink.status.connections == 0)
    position = topic.position_of("tcp-sink")
    assert 200 <= position < 260
    with sink.connect() as sock:
        assert receive(sock, len(wire) - position * 10_000) == wire[position * 10_000 :]


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
    until(lambda: topic.version() == 3)
    for _ in range(2):
        with sink.connect() as out, pa.ipc.open_stream(out.makefile("rb")) as reader:
            assert [reader.read_next_batch().column("n").to_pylist() for _ in range(3)] == [[1, 2, 3]] * 3


def test_a_file_topic_in_the_sinks_framing_is_sent_by_the_kernel(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    sendfile = os.sendfile

    def counted(out: int, fd: int, offset: int, count: int) -> int:
        sent.append(sendfile(out, fd, offset, count))
        return sent[-1]

    monkeypatch.setattr(os, "sendfile", counted)
    topic = bench.topic("file", framing="newline")
    pieces = [lines(start, start + 50_000) for start in range(0, 1_200_000, 50_000)]
    for piece in pieces:
        append(topic, piece)
    with bench.sink(topic).connect() as sock:
        assert receive(sock, sum(map(len, pieces))) == b"".join(pieces)
    # The newest bytes are still in memory and go out from there.
    total = sum(map(len, pieces))
    assert total - 2 * TAIL_BYTES <= sum(sent) < total
