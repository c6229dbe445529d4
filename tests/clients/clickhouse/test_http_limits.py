"""Requests to the embedded ClickHouse that are unauthenticated, too large or too slow."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gauss.clients.clickhouse import http_connections
from gauss.clients.clickhouse.http_connections import MOST_UNPROVEN, FrontConnections, TimedReads
from gauss.clients.endpoint import Endpoint
from helpers.waiting import wait_until

MIB = 1 << 20


def dial(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection((endpoint.host, endpoint.port), timeout=60)


def peak_bytes(endpoint: Endpoint) -> int:
    text = Path(f"/proc/{endpoint.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM"))


def status_of(sock: socket.socket) -> int:
    response = http.client.HTTPResponse(sock)
    response.begin()
    response.read()
    return response.status


def send_until_refused(sock: socket.socket, pieces: Iterator[bytes]) -> int:
    sent = 0
    with contextlib.suppress(ConnectionError, TimeoutError):
        for piece in pieces:
            sock.sendall(piece)
            sent += len(piece)
    return sent


def select_1(endpoint: Endpoint, sock: socket.socket) -> int:
    head = f"GET /?query=SELECT+1 HTTP/1.1\r\nX-ClickHouse-User: {endpoint.user}\r\n"
    sock.sendall(f"{head}X-ClickHouse-Key: {endpoint.password}\r\n\r\n".encode())
    return status_of(sock)


@pytest.mark.parametrize("head", ["Content-Length: {size}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/?query=INSERT+INTO+t+FORMAT+CSV", "/", "/ping"])
def test_body_of_an_unauthenticated_request_is_not_read(clickhouse: Endpoint, path: str, head: str) -> None:
    before, size = peak_bytes(clickhouse), 256 * MIB
    piece = b"x" * MIB
    if "chunked" in head:
        piece = b"%x\r\n%b\r\n" % (len(piece), piece)
    with dial(clickhouse) as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\n{head.format(size=size)}\r\n\r\n".encode())
        assert send_until_refused(sock, (piece for _ in range(256))) < size // 2
        assert status_of(sock) == (200 if path == "/ping" else 403)
    assert peak_bytes(clickhouse) - before < 32 * MIB


def test_two_thousand_idle_connections_do_not_block_other_clients(clickhouse: Endpoint) -> None:
    process = psutil.Process(clickhouse.pid)
    with dial(clickhouse) as known:
        assert select_1(clickhouse, known) == 200
        threads = process.num_threads()
        with contextlib.ExitStack() as stack:
            idle = []
            for number in range(2000):
                sock = stack.enter_context(dial(clickhouse))
                with contextlib.suppress(ConnectionError):
                    sock.sendall(b"GET / HTTP/1.1\r\nX:" if number % 2 else b"")
                idle.append(sock)
                if number >= 500:
                    idle[number - 500].close()  # a test has fewer descriptors than an attacker has machines
            wait_until(lambda: process.num_threads() < threads + 2 * MOST_UNPROVEN, what="idle connections are closed")
            with dial(clickhouse) as sock:
                assert select_1(clickhouse, sock) == 200
            assert select_1(clickhouse, known) == 200  # who has shown the password keeps its connection


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20), 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %b\r\n" % (n, b"x" * 60_000) for n in range(90)), 431),
        (b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    ],
)
def test_oversized_or_malformed_request_head_is_refused(clickhouse: Endpoint, head: bytes, status: int) -> None:
    before = peak_bytes(clickhouse)
    with dial(clickhouse) as sock:
        send_until_refused(sock, iter([head]))
        assert status_of(sock) == status
    assert peak_bytes(clickhouse) - before < 16 * MIB


@pytest.mark.parametrize("chunk", [b"-5\r\n", b"0x5\r\nhello\r\n", b"zz\r\n", b"f" * 400 + b"\r\n", b"\r\n"])
def test_chunk_with_an_invalid_size_is_refused(clickhouse: Endpoint, chunk: bytes) -> None:
    with dial(clickhouse) as sock:
        head = f"POST /?user={clickhouse.user}&password={clickhouse.password} HTTP/1.1\r\n"
        sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk)
        assert status_of(sock) >= 400


def test_query_above_the_length_limit_is_413(clickhouse: Endpoint) -> None:
    before = peak_bytes(clickhouse)
    with dial(clickhouse) as sock:
        head = f"POST /?user={clickhouse.user}&password={clickhouse.password} HTTP/1.1\r\n"
        sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n8\r\nSELECT 1\r\n".encode())
        piece = b"%x\r\n%b\r\n" % (MIB, b" " * MIB)
        send_until_refused(sock, (piece for _ in range(128)))
        assert status_of(sock) == 413
    assert peak_bytes(clickhouse) - before < 128 * MIB


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_time_limit_of_a_head_covers_all_of_its_reads(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    reads = TimedReads(near)
    reads.limit(0.3)
    with pytest.raises(TimeoutError):
        while True:  # a byte now and then does not help
            far.send(b"x")
            assert reads.read(1) == b"x"


def test_read_of_a_body_times_out(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "BODY_SECONDS", 0.05)
    reads = TimedReads(pair[0])
    reads.limit(None)
    with pytest.raises(TimeoutError):
        reads.read(1)


def test_connection_is_refused_while_all_slots_are_authenticated(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connections, "MOST_CONNECTIONS", 1)
    connections = FrontConnections()
    near, far = pair
    assert connections.enter(near)
    connections.prove(near)
    assert not connections.enter(far)
    connections.leave(near)
    assert connections.enter(far)
