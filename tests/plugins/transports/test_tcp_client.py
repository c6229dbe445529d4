from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.contracts.transport import Connection, Transport
from helpers.certificates import Authority
from helpers.edges import transport
from helpers.waiting import wait_until


def read_to_end(connection: Connection) -> None:
    while connection.sock.recv(65536):
        pass


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(20)
        yield made


def start(port: int, **config: object) -> Transport:
    client = transport("tcp-client", {"host": "127.0.0.1", "port": port, **config})
    client.start(read_to_end, lambda _what, _why: None)
    return client


def number_of(client: Transport, name: str) -> int:
    return int(str(client.state()[name]))


def test_it_connects_and_shows_its_state(listener: socket.socket) -> None:
    client = start(listener.getsockname()[1])
    with listener.accept()[0]:
        wait_until(lambda: client.state()["state"] == "connected")
        assert client.state()["connections"] == 1
    client.close()
    assert client.state()["state"] == "stopped"


def test_it_reconnects_when_the_peer_hangs_up(listener: socket.socket) -> None:
    client = start(listener.getsockname()[1])
    for _ in range(3):
        listener.accept()[0].close()
    wait_until(lambda: number_of(client, "accepted") >= 3)
    client.close()


def test_it_waits_for_a_peer_that_is_not_there_yet(listener: socket.socket) -> None:
    address = listener.getsockname()
    listener.close()
    client = start(address[1])
    wait_until(lambda: number_of(client, "attempts") >= 3)
    assert "refused" in str(client.state()["last_error"])
    assert client.state()["state"] in ("waiting", "connecting")
    with socket.create_server(address) as late:
        late.settimeout(60)
        with late.accept()[0]:
            wait_until(lambda: client.state()["state"] == "connected")
    client.close()


def test_pauses_grow_between_attempts(listener: socket.socket) -> None:
    address = listener.getsockname()
    listener.close()
    began = time.monotonic()
    client = start(address[1])
    wait_until(lambda: number_of(client, "attempts") >= 5)
    attempts = number_of(client, "attempts")
    assert time.monotonic() - began >= sum(0.1 * 2**number / 2 for number in range(attempts - 1))
    client.close()


def test_close_ends_a_wait_at_once() -> None:
    others = set(threading.enumerate())
    client = start(1)
    wait_until(lambda: client.state()["state"] == "waiting")
    mine = set(threading.enumerate()) - others
    assert len(mine) == 1
    client.close()
    assert not mine & set(threading.enumerate())


def test_tls_checks_the_server_by_ca_and_name(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))

    def connects(tls: dict[str, object]) -> bool:
        # A listener per case: in a shared one, the next client would meet later connections of this one.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(20)
            client = start(listener.getsockname()[1], tls=tls)
            try:
                with context.wrap_socket(listener.accept()[0], server_side=True):
                    wait_until(lambda: client.state()["state"] == "connected" or client.state()["last_error"])
                    return client.state()["state"] == "connected"
            except (ssl.SSLError, ConnectionError):
                return False
            finally:
                client.close()

    assert connects({"ca": str(authority.path)})
    assert connects({"ca": str(authority.path), "server_name": "localhost"})
    assert connects({"verify": False})
    assert not connects({"ca": str(stranger.path)})
    assert not connects({"ca": str(authority.path), "server_name": "elsewhere"})
