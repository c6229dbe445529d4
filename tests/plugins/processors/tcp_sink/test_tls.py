from __future__ import annotations

import ssl
import threading
import time
from pathlib import Path

from helpers.certificates import Authority
from helpers.edges import Bench, receive
from helpers.sinks import append, lines, narrow
from helpers.waiting import wait_until


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
    wait_until(lambda: sink.status.connections == 0)


def test_a_slow_tls_client_gets_every_byte(bench: Bench, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    topic = bench.topic()
    sink = bench.sink(topic, tls={"cert": "server.pem", "key": "server.key"})
    context = ssl.create_default_context(cafile=str(authority.path))
    wire = b"".join(b"%09999d\n" % number for number in range(1_000))
    with narrow(sink) as sock, context.wrap_socket(sock, server_hostname="localhost") as tls:
        append(topic, wire)
        time.sleep(0.8)  # some sends time out meanwhile
        assert receive(tls, len(wire)) == wire


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
