from __future__ import annotations

import errno
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.stream.engine.topics.captured_streams import CapturedStreams
from helpers.edges import Bench, Running, receive, receive_all
from helpers.run import free_port
from helpers.waiting import wait_until

DATA = random.Random(2).randbytes(2 << 20)


def send(source: Running, data: bytes) -> None:
    with source.connect() as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        receive_all(sock)


def one(topic: CapturedStreams) -> Path:
    wait_until(lambda: len(topic.finished()) == 1)
    return topic.finished()[0]


class Echo:
    """A remote server: stores what it receives, and answers with it in upper case."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.got = bytearray()
        self.resets = False
        self.reading = threading.Event()
        self.reading.set()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def _run(self) -> None:
        conn, _ = self.listener.accept()
        while self.reading.wait(20) and (data := conn.recv(1 << 16)):
            self.got += data
            if self.resets:
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                conn.close()
                return
        conn.sendall(b"got %d" % len(self.got))
        conn.close()


@pytest.fixture
def far() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.listener.close()


def test_a_connection_becomes_a_file_named_by_its_start_and_peer(bench: Bench) -> None:
    topic = bench.captures()
    source = bench.raw("tcp-source", topic)
    with source.connect() as sock:
        port = sock.getsockname()[1]
        sock.sendall(DATA)
        wait_until(lambda: topic.stats()["bytes"] == len(DATA))
        assert topic.finished() == []
        assert topic.stats()["records"] == 1
    path = one(topic)
    assert path.read_bytes() == DATA
    assert path.name.endswith(f"Z_127.0.0.1-{port}.raw")
    assert source.status.bytes == len(DATA)


def test_each_connection_has_a_file_of_its_own(bench: Bench) -> None:
    topic = bench.captures()
    source = bench.raw("tcp-source", topic)
    parts = [b"%d " % number * 10_000 for number in range(8)]
    threads = [threading.Thread(target=send, args=(source, part)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    wait_until(lambda: len(topic.finished()) == 8)
    assert sorted(path.read_bytes() for path in topic.finished()) == sorted(parts)


def test_a_sender_that_vanishes_leaves_a_capture_marked_as_cut(bench: Bench) -> None:
    topic = bench.captures()
    with bench.raw("tcp-source", topic).connect() as sock:
        sock.sendall(b"half of it")
        wait_until(lambda: topic.stats()["bytes"] == 10)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    path = one(topic)
    assert path.read_bytes() == b"half of it"
    assert path.name.endswith(".cut.raw")


def test_a_stop_in_mid_stream_keeps_what_came(bench: Bench) -> None:
    topic = bench.captures()
    source = bench.raw("tcp-source", topic)
    with source.connect() as sock:
        sock.sendall(DATA)
        wait_until(lambda: topic.stats()["bytes"] == len(DATA))
        source.edge.drain(5)
    assert one(topic).read_bytes() == DATA
    assert one(topic).name.endswith(".cut.raw")


def test_what_was_open_when_the_engine_died_is_there_and_marked(tmp_path: Path) -> None:
    (tmp_path / "topic0").mkdir()
    (tmp_path / "topic0" / "20260101T000000.000000Z_10.0.0.1-5.open").write_bytes(b"abc")
    bench = Bench(tmp_path)
    (path,) = bench.captures().finished()
    assert path.name == "20260101T000000.000000Z_10.0.0.1-5.cut.raw"
    bench.close()


def test_a_proxy_passes_both_directions_and_a_half_close(bench: Bench, far: Echo) -> None:
    source = bench.raw("tcp-source", None, forward=far.address)
    with source.connect() as sock:
        sock.sendall(DATA)
        sock.shutdown(socket.SHUT_WR)
        assert receive_all(sock) == b"got %d" % len(DATA)
    assert bytes(far.got) == DATA
    wait_until(lambda: source.status.connections == 0)


def test_a_tee_gives_the_same_bytes_to_the_file_and_the_far_side(bench: Bench, far: Echo) -> None:
    topic = bench.captures()
    send(bench.raw("tcp-source", topic, forward=far.address), DATA)
    path = one(topic)
    assert path.read_bytes() == bytes(far.got) == DATA
    assert not path.name.endswith(".cut.raw")


def test_a_far_side_that_does_not_read_holds_the_sender_back(bench: Bench, far: Echo) -> None:
    topic = bench.captures()
    far.reading.clear()
    source = bench.raw("tcp-source", topic, forward=far.address)
    with source.connect() as sock:
        sock.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 1 << 30:
                sent += sock.send(DATA)
        far.reading.set()
        sock.settimeout(20)
        sock.sendall(b"end")
        sock.shutdown(socket.SHUT_WR)
        assert receive_all(sock).startswith(b"got ")
    assert one(topic).read_bytes() == bytes(far.got)
    assert far.got.endswith(b"end")


def test_a_far_side_that_dies_ends_the_connection_and_cuts_the_capture(bench: Bench, far: Echo) -> None:
    topic = bench.captures()
    far.resets = True
    with bench.raw("tcp-source", topic, forward=far.address).connect() as sock:
        sock.sendall(b"hello")
        assert sock.recv(1) == b""
    assert one(topic).name.endswith(".cut.raw")


def test_a_far_side_that_is_not_there_ends_the_connection_with_the_reason(bench: Bench) -> None:
    address = f"127.0.0.1:{free_port()}"
    source = bench.raw("tcp-source", None, forward=address)
    with source.connect() as sock:
        assert sock.recv(1) == b""
    wait_until(lambda: f"no connection to {address}" in source.status.detail)


def test_a_stop_ends_a_proxy_whose_far_side_stays_silent(bench: Bench, far: Echo) -> None:
    far.reading.clear()
    source = bench.raw("tcp-source", None, forward=far.address)
    with source.connect() as sock:
        sock.sendall(b"x")
        wait_until(lambda: source.status.bytes == 1)
        source.edge.close()
        assert sock.recv(1) == b""
    far.reading.set()


def test_a_full_disk_makes_the_sender_wait_and_loses_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real, full = os.splice, threading.Event()
    full.set()
    topic = bench.captures()
    source = bench.raw("tcp-source", topic)

    def splice(src: int, dst: int, count: int, **rest: int) -> int:
        if full.is_set() and os.path.isfile(f"/proc/self/fd/{dst}"):  # noqa: PTH113
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(src, dst, count, **rest)

    monkeypatch.setattr(os, "splice", splice)
    with source.connect() as sock:
        sock.sendall(b"x" * 100_000)
        sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: source.status.detail == "the disk is full: senders wait")
        full.clear()
        receive_all(sock)
    assert one(topic).read_bytes() == b"x" * 100_000


def test_a_full_topic_blocks_or_lets_the_oldest_capture_go(bench: Bench) -> None:
    blocking = bench.captures(max_bytes=4096)
    source = bench.raw("tcp-source", blocking)
    send(source, b"x" * 5000)
    one(blocking)
    with source.connect() as sock:
        sock.sendall(b"y")
        wait_until(lambda: blocking.blocked() is not None)
        assert source.status.bytes == 5000
        blocking.finished()[0].unlink()
        wait_until(lambda: source.status.bytes == 5001)
    rolling = bench.captures(max_bytes=4096, write_full="overwrite")
    source = bench.raw("tcp-source", rolling)
    send(source, b"x" * 5000)
    one(rolling)
    send(source, b"new")
    wait_until(lambda: [path.read_bytes() for path in rolling.finished()] == [b"new"])


def test_a_quiet_connection_is_closed_after_its_idle_timeout(bench: Bench) -> None:
    source = bench.raw("tcp-source", bench.captures(), idle_timeout="50ms")
    with source.connect() as sock:
        assert sock.recv(1) == b""
    wait_until(lambda: "idle_timeout" in source.status.detail)


def test_a_client_of_a_replay_gets_every_capture_in_order_then_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, sendfile = [0], os.sendfile

    def counted(out: int, fd: int, offset: int, count: int) -> int:
        done = sendfile(out, fd, offset, count)
        sent[0] += done
        return done

    monkeypatch.setattr(os, "sendfile", counted)
    topic = bench.captures()
    source = bench.raw("tcp-source", topic)
    for number, part in enumerate((DATA, b"", b"second" * 20_000)):
        send(source, part)
        wait_until(lambda number=number: len(topic.finished()) == number + 1)  # type: ignore[misc]
    with bench.raw("tcp-sink", topic).connect() as sock:
        assert receive_all(sock) == DATA + b"second" * 20_000
    assert sent[0] == len(DATA) + 120_000


def test_a_replay_where_sendfile_is_refused_sends_the_same(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", refused)
    topic = bench.captures()
    send(bench.raw("tcp-source", topic), DATA)
    one(topic)
    with bench.raw("tcp-sink", topic).connect() as sock:
        assert receive(sock, len(DATA)) == DATA
