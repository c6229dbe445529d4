"""Who may connect to a WebSocket sink: origins, tokens, handshakes and TLS."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gauss.plugins.processors.ws_sink import wire
from gauss.plugins.processors.ws_sink.spec import SPEC
from helpers.certificates import Authority
from helpers.edges import Bench
from helpers.waiting import wait_until
from helpers.ws_sinks import append, join, sink

FOREIGN = "https://elsewhere.example"


@pytest.mark.parametrize(
    ("config", "origins", "status"),
    [
        ({}, [], 101),
        ({}, [FOREIGN], 403),
        ({}, ["null"], 403),
        ({}, [""], 403),
        ({}, ["http://[::1"], 403),
        ({}, ["http://localhost.elsewhere.example"], 403),
        ({}, ["http://localhost:3000"], 101),
        ({}, ["http://127.0.0.1"], 101),
        ({}, ["http://[::1]:80"], 101),
        ({}, ["http://localhost", FOREIGN], 403),
        ({"origins": [FOREIGN]}, [FOREIGN], 101),
        ({"origins": [FOREIGN]}, ["HTTPS://Elsewhere.example"], 101),
        ({"origins": [FOREIGN]}, ["https://another.example"], 403),
        ({"origins": [FOREIGN]}, ["http://localhost"], 403),
        ({"origins": ["*"]}, [FOREIGN], 101),
        ({"token": "secret"}, [FOREIGN], 101),
        ({"token": "secret", "origins": ["https://another.example"]}, [FOREIGN], 403),
    ],
)
def test_page_of_a_stranger_needs_a_token_or_an_entry(
    bench: Bench, config: dict[str, Any], origins: list[str], status: int
) -> None:
    topic = bench.topic()
    append(topic, b"x")
    running = sink(bench, topic, **config)
    found = 101
    try:
        headers = [("Origin", origin) for origin in origins]
        with join(running, "/?token=secret", additional_headers=headers) as client:
            assert client.recv(30) == "x"
    except InvalidStatus as refused:
        found = refused.response.status_code
    assert found == status


@pytest.mark.parametrize("origin", ["elsewhere.example", "https://elsewhere.example/page", "", "https://"])
def test_origin_that_is_none_is_a_fault(origin: str) -> None:
    with pytest.raises(ValueError, match="expected an origin such as"):
        SPEC.validate({"port": 0, "origins": [origin]})


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/other?token=secret", {}, 404),
        ("/quotes", {}, 401),
        ("/quotes?token=wrong", {}, 401),
        ("/quotes", {"Authorization": "Bearer wrong"}, 401),
        ("/quotes", {"Authorization": "Bearer secret"}, 101),
        ("/quotes?token=secret", {}, 101),
    ],
)
def test_path_and_token_open_the_door(bench: Bench, path: str, headers: dict[str, str], status: int) -> None:
    topic = bench.topic()
    append(topic, b"x")
    running = sink(bench, topic, path="/quotes", token="secret")
    if status == 101:
        with join(running, path, additional_headers=headers) as client:
            assert client.recv(30) == "x"
        return
    with pytest.raises(InvalidStatus) as caught:
        join(running, path, additional_headers=headers)
    assert caught.value.response.status_code == status
    wait_until(lambda: running.status.refused == 1)
    assert "secret" not in running.status.detail


def test_what_is_no_websocket_is_refused_and_holds_up_nobody(bench: Bench) -> None:
    topic = bench.topic()
    append(topic, b"x")
    running = sink(bench, topic)
    with running.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 426 ")
    with running.connect() as sock:
        sock.sendall(b"\x16\x03\x01\r\n\r\n")
        assert sock.recv(1) == b""
    with running.connect(), join(running) as client:  # the first sends nothing at all
        wait_until(lambda: running.status.phases)
        assert client.recv(30) == "x"
    assert running.status.refused >= 2


def test_who_asks_for_nothing_is_refused_in_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "HANDSHAKE_SECONDS", 0.2)
    running = sink(bench, bench.topic())
    with running.connect() as sock:
        assert sock.recv(1) == b""
    assert running.status.detail.endswith(" refused: its request was not complete within 0.2 s")
    assert running.status.address == f"ws 127.0.0.1:{running.port}"


def test_the_handshake_is_a_phase_that_can_be_seen(bench: Bench) -> None:
    running = sink(bench, bench.topic())
    with running.connect():
        wait_until(lambda: running.status.shown() == "handshake")
        with join(running):
            wait_until(lambda: running.status.connections == 1)
            assert running.status.shown() == "running"


def test_tls_is_spoken_where_it_is_asked_for(bench: Bench, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("localhost")
    topic = bench.topic()
    append(topic, b"x" * 100_000, b"y")
    running = sink(bench, topic, tls={"cert": str(cert), "key": str(key)})
    context = ssl.create_default_context(cafile=str(authority.path))
    with connect(f"wss://localhost:{running.port}/", ssl=context, max_size=None) as client:
        assert client.recv(30) == "x" * 100_000
        assert client.ping().wait(30)
        assert client.recv(30) == "y"
