"""A connection that begins with an HTTP request line is closed; one with a similar beginning is not."""

from __future__ import annotations

import contextlib
import socket

import pytest

from gauss.model.errors import Rejected
from gauss.plugins.processors.tcp_source.opening import MOST_BYTES, Opening
from helpers.edges import PREFIXED, Bench, receive_all, records
from helpers.waiting import wait_until

REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: localhost:9000\r\n\r\n",
    b"POST /?x=1 HTTP/1.0\nContent-Length: 5\n\nevil\n",
    b"OPTIONS * HTTP/1.1\r\n\r\n",
    b"CONNECT localhost:9000 HTTP/1.1\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /" + b"a" * 4000 + b" HTTP/1.1\r\n\r\n",
]
RECORDS = [
    b"GET\n",
    b"GET /a\n",
    b"GET /a b HTTP/1.1\n",
    b"POSTED / HTTP/1.1\n",
    b"get / http/1.1\n",
    b"P\n",
    b"\n",
    b'{"GET": "/ HTTP/1.1"}\n',
    b" GET / HTTP/1.1\n",
    b"GET /" + b"a" * MOST_BYTES + b" HTTP/1.1\n",
]


def watch(data: bytes, step: int) -> bool:
    opening = Opening()
    return any(opening.is_over(memoryview(data)[at : at + step]) for at in range(0, len(data), step))


@pytest.mark.parametrize("step", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda data: data[:12].decode())
def test_a_request_is_told_however_it_is_cut(request_: bytes, step: int) -> None:
    with pytest.raises(Rejected, match="HTTP request line"):
        watch(request_, step)


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
@pytest.mark.parametrize("record", RECORDS, ids=lambda data: repr(data[:12]))
def test_a_record_is_none(record: bytes, step: int) -> None:
    assert watch(record + b"more\n", step)


@pytest.mark.parametrize("framing", [{"framing": "newline"}, {"framing": "newline", "delimiter": "/"}, PREFIXED])
def test_a_browser_writes_no_record(bench: Bench, framing: dict[str, str]) -> None:
    topic = bench.topic()
    source = bench.source(topic, input=framing)
    with source.connect() as sock:
        sock.sendall(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n\0\0\0\x02hi/evil\n")
        with contextlib.suppress(ConnectionResetError):
            assert receive_all(sock) == b""
    wait_until(lambda: source.status.refused == 1)
    assert "HTTP request line" in source.status.detail
    assert (topic.version(), bench.dead) == (0, [])
    with source.connect() as sock:
        sock.sendall(b"\0\0\0\x02hi" if framing is PREFIXED else b"hi/\n")
        wait_until(lambda: topic.version() >= 1)


def test_the_first_line_may_come_byte_by_byte(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic)
    with source.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET / HTT\nP/1.1\n":
            sock.sendall(bytes([byte]))
        wait_until(lambda: topic.version() == 2)
        for byte in b"GET / HTTP/1.1\r\n":  # no longer the first line
            sock.sendall(bytes([byte]))
        wait_until(lambda: topic.version() == 3)
    assert records(topic) == [b"GET / HTT", b"P/1.1", b"GET / HTTP/1.1\r"]


def test_requests_are_records_where_they_are_allowed(bench: Bench) -> None:
    topic = bench.topic()
    with bench.source(topic, allow_http=True).connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\n")
        wait_until(lambda: topic.version() == 1)
    assert records(topic) == [b"GET / HTTP/1.1"]
