from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gauss.contracts.transport import Connection, Transport
from gauss.model.errors import ConfigError, GaussError
from gauss.plugins.transports.tcp_server import transport as tcp_server
from gauss.plugins.transports.tcp_server.spec import SPEC
from helpers.certificates import Authority
from helpers.edges import receive, transport
from helpers.waiting import wait_until


def echo(connection: Connection) -> None:
    while data := connection.sock.recv(65536):
        connection.sock.sendall(data)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Transport]]:
    started: list[Transport] = []

    def make(handler: Callable[[Connection], None] = echo, **config: Any) -> Transport:
        made = transport("tcp-server", {"port": 0, **config}, tmp_path)
        made.start(handler, lambda _what, _why: None)
        started.append(made)
        return made

    yield make
    for made in started:
        made.close()


def connect(server: Transport) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.address()[1]))
    sock.settimeout(20)
    return sock


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_are_served_each_in_its_own_thread(serve: Callable[..., Transport]) -> None:
    server = serve()
    with connect(server) as first, connect(server) as second:
        second.sendall(b"2")
        first.sendall(b"1")
        assert (first.recv(1), second.recv(1)) == (b"1", b"2")
        assert server.state()["connections"] == 2


def test_a_taken_port_is_named_with_a_hint(serve: Callable[..., Transport]) -> None:
    port = serve().address()[1]
    with pytest.raises(GaussError, match=f"port {port} on 127.0.0.1 is in use") as caught:
        serve(port=port)
    assert "another port" in caught.value.hint


def test_an_address_of_another_machine_is_refused_with_a_hint(serve: Callable[..., Transport]) -> None:
    with pytest.raises(GaussError, match=r"can't listen on 192\.0\.2\.1") as caught:
        serve(host="192.0.2.1", allow=["192.0.2.0/24"])
    assert "host" in caught.value.hint


def test_a_port_can_be_bound_again_at_once(serve: Callable[..., Transport]) -> None:
    server = serve()
    with connect(server) as sock:
        sock.sendall(b"x")
        receive(sock, 1)
        server.close()
        assert serve(port=server.address()[1]).address() == server.address()


def test_a_connection_above_the_cap_is_closed_and_counted(serve: Callable[..., Transport]) -> None:
    server = serve(max_connections=2)
    with connect(server) as one, connect(server) as two:
        for sock in (one, two):
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        with connect(server) as three:
            assert is_closed(three)
        assert server.state()["refused"] == 1
        assert "max_connections = 2" in str(server.state()["last_error"])
    wait_until(lambda: server.state()["connections"] == 0)
    with connect(server) as again:
        again.sendall(b"y")
        assert again.recv(1) == b"y"


def test_a_peer_outside_the_allow_list_is_refused(serve: Callable[..., Transport]) -> None:
    server = serve(allow=["10.0.0.0/8"])
    with connect(server) as sock:
        assert is_closed(sock)
    assert server.state()["refused"] == 1
    inside = serve(allow=["10.0.0.0/8", "127.0.0.1"])
    with connect(inside) as sock:
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"


def test_an_ipv4_peer_of_an_ipv6_listener_is_judged_by_its_ipv4_address(serve: Callable[..., Transport]) -> None:
    server = serve(host="::", allow=["127.0.0.0/8"])
    with connect(server) as sock:
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"


@pytest.mark.parametrize("config", [{"host": "0.0.0.0"}, {"allow": ["10.0.0.0/99"]}, {"tls": {"ca": "ca.pem"}}])
def test_an_unsafe_or_broken_config_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SPEC.validate({"port": 0, **config})


def test_thousands_of_connections_opened_and_dropped_leave_nothing_behind(serve: Callable[..., Transport]) -> None:
    server = serve(max_connections=4_000)  # none is refused, even if a closed one is noticed late
    connect(server).close()
    wait_until(lambda: server.state()["accepted"] == 1 and server.state()["connections"] == 0)
    files, threads = open_files(), set(threading.enumerate())
    for _ in range(1_999):
        connect(server).close()
    wait_until(lambda: server.state()["accepted"] == 2_000 and server.state()["connections"] == 0, 60)
    wait_until(lambda: not set(threading.enumerate()) - threads)
    assert open_files() <= files


def test_close_ends_connections_and_their_threads(serve: Callable[..., Transport]) -> None:
    others = set(threading.enumerate())
    server = serve()
    socks = [connect(server) for _ in range(20)]
    wait_until(lambda: server.state()["accepted"] == 20)
    server.close()
    assert all(is_closed(sock) for sock in socks)
    assert not set(threading.enumerate()) - others
    for sock in socks:
        sock.close()


def test_stop_accepting_leaves_open_connections_alone(serve: Callable[..., Transport]) -> None:
    server = serve()
    with connect(server) as sock:
        sock.sendall(b"x")
        receive(sock, 1)
        server.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            connect(server)
        sock.sendall(b"y")
        assert sock.recv(1) == b"y"


def test_a_client_that_never_finishes_its_handshake_holds_up_nobody(
    serve: Callable[..., Transport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_server, "HANDSHAKE_SECONDS", 600.0)
    authority = Authority(tmp_path)
    authority.issue("server")
    server = serve(tls={"cert": "server.pem", "key": "server.key"})
    context = ssl.create_default_context(cafile=str(authority.path))
    with connect(server), connect(server) as silent:
        silent.send(b"\x16\x03\x01")
        with connect(server) as sock, context.wrap_socket(sock, server_hostname="localhost") as good:
            good.sendall(b"x")
            assert good.recv(1) == b"x"


def test_plain_bytes_at_a_tls_port_are_refused_and_counted(serve: Callable[..., Transport], tmp_path: Path) -> None:
    Authority(tmp_path).issue("server")
    server = serve(tls={"cert": "server.pem", "key": "server.key"})
    with connect(server) as sock:
        sock.sendall(b"hello, is this plain?\n" * 10)
        wait_until(lambda: "TLS" in str(server.state()["last_error"]))
    assert server.state()["refused"] == 1


def test_ca_demands_a_client_certificate_of_that_authority(serve: Callable[..., Transport], tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    authority.issue("server")
    known, unknown = authority.issue("client"), stranger.issue("guest")
    server = serve(tls={"cert": "server.pem", "key": "server.key", "ca": "ca.pem"})

    def talk(certificate: tuple[Path, Path] | None) -> bytes:
        context = ssl.create_default_context(cafile=str(authority.path))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        with connect(server) as sock, context.wrap_socket(sock, server_hostname="localhost") as tls:
            tls.sendall(b"x")
            return tls.recv(1)

    assert talk(known) == b"x"
    for certificate in (None, unknown):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            assert talk(certificate), "closed without an answer"
            raise ConnectionError
    wait_until(lambda: server.state()["refused"] == 2)


def test_a_key_of_another_certificate_is_named_at_the_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("one")
    authority.issue("two")
    with pytest.raises(ConfigError, match=r"can't use certificate one.pem with key two.key"):
        transport("tcp-server", {"port": 0, "tls": {"cert": "one.pem", "key": "two.key"}}, tmp_path)


def test_the_open_file_limit_is_raised_for_the_connections_that_are_allowed() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096));"
        "from gauss.plugins.transports.tcp_server.spec import SPEC;"
        "from gauss.plugins.transports.tcp_server.transport import TcpServer;"
        "TcpServer(SPEC.validate({'port': 0})).start(lambda c: None, lambda what, why: None);"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert 1_000 < int(found.stdout) <= 4_096
