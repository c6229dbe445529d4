"""The HTTP server with a minimal application, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from gauss.http import body, connections
from gauss.http.server import ApiServer, listen, tls_context
from helpers.certificates import Authority
from helpers.waiting import wait_until

Connect = Callable[[], socket.socket]


async def answers(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["path"] == "/slow":
        await receive()
        await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def serve() -> Iterator[Callable[..., Connect]]:
    stack = contextlib.ExitStack()

    def start(allow: tuple[str, ...] = ()) -> Connect:
        listener = listen("127.0.0.1", 0)
        address = listener.getsockname()
        server = ApiServer(listener, lambda: answers, allow=allow)
        server.start()
        stack.callback(server.stop)
        return lambda: stack.enter_context(socket.create_connection(address, timeout=60))

    with stack:
        yield start


def is_closed(sock: socket.socket) -> bool:
    sock.settimeout(0.05)
    try:
        return sock.recv(1 << 16) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def get(sock: socket.socket, path: str = "/") -> bytes:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    found = b""
    while not found.endswith(b"ok"):
        piece = sock.recv(1 << 16)
        assert piece, found
        found += piece
    return found


def test_head_that_comes_too_slowly_ends_the_connection(
    serve: Callable[..., Connect], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    slow = serve()()
    slow.sendall(b"GET / HTTP/1.1\r\n")

    def is_over() -> bool:
        with contextlib.suppress(ConnectionError):
            slow.sendall(b"X: y\r\n")  # single bytes do not extend the time limit
        return is_closed(slow)

    wait_until(is_over, what="the connection ends")


def test_head_of_a_second_request_has_the_same_time(
    serve: Callable[..., Connect], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    slow = serve()()
    assert b"200" in get(slow)
    slow.sendall(b"GET / HTTP/1.1\r\n")
    wait_until(lambda: is_closed(slow), what="the connection ends")


def test_request_under_way_is_not_a_connection_that_waits(
    serve: Callable[..., Connect], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(connections, "MOST_WAITING", 2)
    connect = serve()
    busy = connect()
    busy.sendall(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    assert b"200" in get(connect())  # the connection before it was accepted first
    idle = [connect() for _ in range(10)]
    wait_until(lambda: all(is_closed(sock) for sock in idle), what="those that wait are closed")
    busy.sendall(b"b")
    assert busy.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_connection_that_waits_longest_gives_way(
    serve: Callable[..., Connect], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_WAITING", 3)
    connect = serve()
    waiting = [connect() for _ in range(4)]
    wait_until(lambda: is_closed(waiting[0]), what="the oldest is closed")
    assert b"200" in get(waiting[3])


def test_only_allowed_networks_are_answered(serve: Callable[..., Connect]) -> None:
    assert b"200" in get(serve(("127.0.0.0/8",))())
    for host, allowed in {
        "127.0.0.1": True,
        "::1": True,
        "10.1.2.3": True,
        "::ffff:10.1.2.3": True,
        "192.0.2.1": False,
        "2001:db8::1": False,
        "": False,
    }.items():
        assert connections.HttpConnections(("10.0.0.0/8",)).allows(host) is allowed, host
    assert connections.HttpConnections().allows("192.0.2.1")


def test_peer_outside_the_allow_list_is_closed(serve: Callable[..., Connect], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "is_loopback", lambda _: False)
    refused = serve(("10.0.0.0/8",))()
    wait_until(lambda: is_closed(refused), what="refused")


def test_tls_handshake_that_is_never_made_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    listener = listen("127.0.0.1", 0)
    server = ApiServer(listener, lambda: answers, tls=tls_context(*Authority(tmp_path).issue("server")))
    server.start()
    try:
        with socket.create_connection(listener.getsockname(), timeout=60) as silent:
            wait_until(lambda: is_closed(silent), what="the connection ends")
    finally:
        server.stop()


def body_of(headers: list[tuple[bytes, bytes]], messages: list[Any]) -> body.BodyReceiver:
    async def receive() -> Any:
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def send(_: Any) -> None: ...

    return body.BodyReceiver({"method": "POST", "path": "/api/dlq/replay", "headers": headers}, receive, send)


def test_body_that_comes_too_slowly_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.1)

    async def take() -> None:
        received = body_of([(b"content-length", b"2")], [{"type": "http.request", "body": b"a", "more_body": True}])
        await received.receive()
        await received.receive()

    with pytest.raises(HTTPException) as told:
        asyncio.run(take())
    assert told.value.status_code == 408


def test_whole_body_has_no_time_limit_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A streamed response uses `receive` to wait for the client to disconnect."""
    monkeypatch.setattr(body, "BODY_SECONDS", 0.0)

    async def take() -> Any:
        received = body_of([], [{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}])
        await received.receive()
        return await received.receive()

    assert asyncio.run(take()) == {"type": "http.disconnect"}


def test_stop_ends_the_server_and_its_thread() -> None:
    before = threading.active_count()
    listener = listen("127.0.0.1", 0)
    server = ApiServer(listener, lambda: answers)
    server.start()
    sock = socket.create_connection(listener.getsockname(), timeout=60)
    get(sock)
    server.stop(30)
    assert threading.active_count() == before and is_closed(sock)
    sock.close()
