from __future__ import annotations

import gzip
import os
import random
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from gauss.stream.engine.topics.topic import Topic
from helpers.certificates import Authority
from helpers.edges import PREFIXED, Bench, Running, receive, receive_all, records
from helpers.run import free_port
from helpers.waiting import stays, wait_until

COMPRESS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress, "lz4": lz4.frame.compress}


def prefixed(*contents: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(content)) + content for content in contents)


def lines(start: int, stop: int, tag: str = "line") -> bytes:
    return b"".join(b"%s %d\n" % (tag.encode(), number) for number in range(start, stop))


def feed(source: Running, data: bytes) -> None:
    with source.connect() as sock:
        sock.sendall(data)


def test_lines_become_records(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic)
    feed(source, b"one\ntwo\n\nfour\n")
    wait_until(lambda: topic.version() == 4)
    assert records(topic) == [b"one", b"two", b"", b"four"]
    wait_until(lambda: source.status.connections == 0)
    assert (source.status.records, source.status.accepted, bench.dead) == (4, 1, [])


def test_length_prefixed_frames_become_records_whatever_they_hold(bench: Bench) -> None:
    topic = bench.topic()
    contents = [os.urandom(random.Random(size).randrange(300)) for size in range(500)]
    feed(bench.source(topic, input=PREFIXED), prefixed(*contents))
    wait_until(lambda: topic.version() == 500)
    assert records(topic) == contents


def test_a_stream_cut_at_random_points_gives_the_same_records(bench: Bench) -> None:
    topic = bench.topic()
    data, chance = lines(0, 2_000), random.Random(7)
    with bench.source(topic).connect() as sock:
        while data:
            size = chance.randrange(1, 900)
            sock.sendall(data[:size])
            data = data[size:]
    wait_until(lambda: topic.version() == 2_000)
    assert records(topic) == lines(0, 2_000).splitlines()


def test_64_producers_one_slow_one_dying_in_mid_frame(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic)

    def produce(number: int) -> None:
        with source.connect() as sock:
            if number == 0:  # slowly, byte by byte
                for byte in lines(0, 20, "p0"):
                    sock.sendall(bytes([byte]))
                    time.sleep(0.002)
            elif number == 1:
                sock.sendall(lines(0, 500, "p1") + b"half a li")
            else:
                for start in range(0, 500, 50):
                    sock.sendall(lines(start, start + 50, f"p{number}"))

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: topic.version() == 63 * 500 + 20 and source.status.connections == 0)
    found = records(topic)
    for number in range(64):
        tag = b"p%d " % number
        expected = lines(0, 500 if number else 20, f"p{number}").splitlines()
        assert [record for record in found if record.startswith(tag)] == expected
    assert [(letter.reason, letter.stage, letter.data) for letter in bench.dead] == [
        ("truncated", "frame", b"half a li")
    ]


def test_a_huge_length_keeps_what_was_whole_and_closes_that_connection_only(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, input=PREFIXED)
    with source.connect() as good, source.connect() as bad:
        bad.sendall(prefixed(b"whole") + struct.pack(">I", 0xFFFFFFFF) + b"rest")
        with pytest.raises((ConnectionResetError, AssertionError)):
            assert bad.recv(1) != b""
        good.sendall(prefixed(b"still here"))
        wait_until(lambda: topic.version() == 2)
    assert records(topic) == [b"whole", b"still here"]
    (letter,) = bench.dead
    assert (letter.reason, letter.stage, letter.processor, letter.topic) == ("too_long", "frame", "tcp-source", "t")
    assert letter.data == b"\xff\xff\xff\xffrest"
    assert letter.detail.startswith("127.0.0.1:")
    assert "max_record_bytes" in letter.detail


def test_a_line_above_max_record_bytes_is_a_dead_letter(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, max_record_bytes=100)
    feed(source, b"short\n" + b"x" * 500)
    wait_until(lambda: bench.dead)
    assert records(topic) == [b"short"]
    assert bench.dead[0].reason == "too_long"


def test_random_bytes_disturb_nobody_else(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, input=PREFIXED, max_record_bytes="1MiB")
    with source.connect() as good:
        for seed in range(30):
            with source.connect() as noise:
                try:
                    noise.sendall(b"\xf0" + random.Random(seed).randbytes(5_000))
                except ConnectionError:
                    continue
        wait_until(lambda: len(bench.dead) == 30)
        good.sendall(prefixed(b"fine"))
        wait_until(lambda: topic.version() == 1)


@pytest.mark.parametrize("kind", list(COMPRESS))
def test_a_compressed_stream_is_decompressed_before_it_is_cut(bench: Bench, kind: str) -> None:
    topic = bench.topic()
    source = bench.source(topic, compression=kind)
    packed, chance = COMPRESS[kind](lines(0, 3_000)) + COMPRESS[kind](lines(3_000, 5_000)), random.Random(3)
    with source.connect() as sock:
        while packed:
            size = chance.randrange(1, 5_000)
            sock.sendall(packed[:size])
            packed = packed[size:]
    wait_until(lambda: topic.version() == 5_000 and source.status.connections == 0)
    assert records(topic) == lines(0, 5_000).splitlines()
    assert bench.dead == []


@pytest.mark.parametrize("kind", list(COMPRESS))
def test_a_corrupt_compressed_stream_is_a_dead_letter_beside_its_half_record(bench: Bench, kind: str) -> None:
    topic = bench.topic()
    source = bench.source(topic, compression=kind)
    feed(source, COMPRESS[kind](b"good\nhal") + b"no compressed bytes at all")
    wait_until(lambda: len(bench.dead) == 2)
    assert records(topic) == [b"good"]
    assert [letter.reason for letter in bench.dead] == ["bad_compression", "truncated"]
    assert bench.dead[1].data == b"hal"


def test_ack_counts_visible_records_of_this_connection(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, ack="count")
    feed(source, b"of another connection\n")
    wait_until(lambda: topic.version() == 1)
    with source.connect() as sock:
        sock.sendall(b"a\nb\nha")
        assert receive(sock, 8) == struct.pack(">Q", 2)
        assert topic.version() == 3
        sock.sendall(b"lf\n")
        assert receive(sock, 8) == struct.pack(">Q", 3)


def test_ack_does_not_count_what_a_full_topic_dropped(bench: Bench) -> None:
    topic = bench.topic(storage_size=5, write_full="drop")
    reader = topic.reader("r", "earliest", keep=False)
    with bench.source(topic, ack="count").connect() as sock:
        sock.sendall(lines(0, 8))
        assert receive(sock, 8) == struct.pack(">Q", 5)
        reader.move(5)
        sock.sendall(b"nine\n")
        assert receive(sock, 8) == struct.pack(">Q", 6)
    assert topic.counters.dropped == 3


def fill(sock: socket.socket, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=sock.sendall, args=(data,))
    thread.start()
    return thread


def pass_all(topic: Topic, count: int) -> None:
    reader = topic.readers.get("r")
    while reader.position < count:
        topic.wait(reader.position, 10)
        reader.move(topic.version())


def test_a_full_topic_stops_the_sender_until_there_is_room_and_nothing_is_lost(bench: Bench) -> None:
    topic = bench.topic(storage_size=1_000)
    topic.reader("r", "earliest", keep=False)
    source = bench.source(topic)
    data = b"".join(b"%0999d\n" % number for number in range(60_000))  # 60 MB: more than the kernel buffers
    with source.connect() as sock:
        sender = fill(sock, data)
        wait_until(lambda: topic.version() == 1_000)
        stays(lambda: topic.version() == 1_000 and sender.is_alive(), 0.3)
        pass_all(topic, 60_000)
        sender.join(60)
        assert not sender.is_alive()
    wait_until(lambda: source.status.connections == 0)
    assert topic.version() == 60_000
    assert topic.counters.dropped == 0
    assert [int(record) for record in records(topic)] == list(range(59_000, 60_000))


def test_nothing_is_read_while_the_disk_is_low(bench: Bench) -> None:
    topic = bench.topic()
    bench.may_read = False
    with bench.source(topic).connect() as sock:
        sock.sendall(b"one\n")
        stays(lambda: topic.version() == 0, 0.3)
        bench.may_read = True
        wait_until(lambda: topic.version() == 1)


def is_closed(sock: socket.socket) -> bool:
    """Whether the peer has closed, without waiting."""
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.mark.system  # this takes six seconds
def test_an_idle_connection_is_closed_a_busy_one_is_not(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, idle_timeout="6s")  # longer than a busy machine delays the sender
    with source.connect() as idle, source.connect() as busy:
        idle.setblocking(False)
        sent = 0
        while not is_closed(idle):
            busy.sendall(b"x\n")
            sent += 1
            time.sleep(0.05)
        busy.sendall(b"y\n")
        wait_until(lambda: topic.version() == sent + 1)
        assert "idle_timeout" in source.status.detail


def test_half_a_record_of_a_connection_that_fell_silent_is_a_dead_letter(bench: Bench) -> None:
    feeding = bench.source(bench.topic(), idle_timeout="100ms")
    bench.may_read = False  # the idle time starts after the half record
    with feeding.connect() as sock:
        sock.sendall(b"half a reco")
        bench.may_read = True
        assert sock.recv(1) == b""
    assert [(letter.reason, letter.data) for letter in bench.dead] == [("truncated", b"half a reco")]


def test_tls_with_client_certificates(bench: Bench, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    topic = bench.topic()
    source = bench.source(topic, tls={"cert": "server.pem", "key": "server.key", "ca": "ca.pem"}, ack="count")
    context = ssl.create_default_context(cafile=str(authority.path))
    context.load_cert_chain(*authority.issue("client"))
    with source.connect() as sock, context.wrap_socket(sock, server_hostname="localhost") as tls:
        tls.sendall(lines(0, 50_000))
        wait_until(lambda: topic.version() == 50_000)
    wait_until(lambda: source.status.records == 50_000)  # counted after they are visible


def test_a_client_source_reads_from_a_server_and_reconnects(bench: Bench) -> None:
    topic = bench.topic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        source = bench.source(topic, transport="tcp-client", host="127.0.0.1", port=server.getsockname()[1])
        for number in range(3):
            with server.accept()[0] as peer:
                peer.sendall(b"from connection %d\n" % number)
                assert topic.wait(number, 60) == number + 1
                assert source.context.transport.state()["accepted"] == number + 1


def test_a_client_source_shows_that_it_waits_for_its_server(bench: Bench) -> None:
    topic = bench.topic()
    port = free_port()
    source = bench.source(topic, transport="tcp-client", host="127.0.0.1", port=port)
    wait_until(lambda: source.status.state == "waiting")
    assert source.status.detail == f"no connection to 127.0.0.1:{port}: Connection refused"
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(60)
        with server.accept()[0]:
            wait_until(lambda: source.status.state == "running")
            assert (source.status.address, source.status.detail) == (f"tcp-client 127.0.0.1:{port}", "")


def test_refused_connections_are_counted(bench: Bench) -> None:
    source = bench.source(bench.topic(), max_connections=1)
    with source.connect():
        wait_until(lambda: source.status.connections == 1)
        with source.connect() as second:
            wait_until(lambda: source.status.refused == 1)
            assert second.recv(1) == b""
    assert "max_connections = 1" in source.status.detail


def test_drain_appends_what_was_read_and_buries_a_half_record(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic)
    with source.connect() as sock:
        sock.sendall(b"whole\nha")
        wait_until(lambda: topic.version() == 1)
        began = time.monotonic()
        source.edge.drain(60)
        assert time.monotonic() - began < 50  # it does not wait for the timeout
        assert source.status.connections == 0
        with pytest.raises(ConnectionRefusedError):
            source.connect()
        assert receive_all(sock) == b""
    assert [(letter.reason, letter.data) for letter in bench.dead] == [("truncated", b"ha")]


def test_drain_and_close_end_though_the_topic_is_full(bench: Bench) -> None:
    topic = bench.topic(storage_size=10)
    topic.reader("r", "earliest", keep=False)
    source = bench.source(topic)
    with source.connect() as sock:
        sock.sendall(lines(0, 100))
        wait_until(lambda: topic.version() == 10)
        source.edge.drain(0.2)
        source.edge.close()
    assert source.status.connections == 0
    assert topic.version() == 10
