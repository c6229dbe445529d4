"""The link between tasks and the process that runs their sync."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from gauss.connect.spark.link import Link, LinkServer
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory


class Coordinator:
    """Answers calls, some with errors."""

    draining = False

    def call(self, name: str, arguments: list[Any]) -> Any:
        if name == "fail":
            raise ConnectorError.permission("DENIED", "not allowed")
        if name == "break":
            raise RuntimeError("a fault of the coordinator")
        return [name, *arguments]


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def server(coordinator: Coordinator) -> Iterator[LinkServer]:
    made = LinkServer(coordinator)
    yield made
    made.close()


@pytest.fixture
def link(server: LinkServer) -> Iterator[Link]:
    made = Link(server.address)
    yield made
    made.close()


def test_values_of_any_size_come_back(link: Link) -> None:
    large = b"\x00\xff" * 3_000_000
    assert link.call("echo", large, None, "ü", 1 << 40) == ["echo", large, None, "ü", 1 << 40]


def test_errors_keep_their_category_and_the_link_goes_on(link: Link) -> None:
    with pytest.raises(ConnectorError, match="not allowed") as raised:
        link.call("fail")
    assert raised.value.category is ErrorCategory.PERMISSION
    with pytest.raises(ConnectorError, match="a fault of the coordinator"):
        link.call("break")
    assert link.call("echo") == ["echo"]


def test_an_answer_says_whether_to_drain(link: Link, coordinator: Coordinator) -> None:
    link.call("echo")
    assert not link.draining
    coordinator.draining = True
    link.call("echo")
    assert link.draining


def test_a_closed_server_ends_its_tasks(server: LinkServer, link: Link) -> None:
    link.call("echo")
    server.close()
    with pytest.raises(ConnectorError, match="has ended this attempt"):
        link.call("echo")
    with pytest.raises(ConnectorError, match="has ended this attempt"):
        Link(server.address).call("echo")


@pytest.mark.parametrize("sent", [b"\x00\x00\x00\x20" + b"x" * 32, b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b""])
def test_a_stranger_gets_no_answer(server: LinkServer, sent: bytes) -> None:
    host, port, _ = server.address
    # It may be closed before it has read all of it.
    with socket.create_connection((host, port), timeout=20) as stranger, contextlib.suppress(OSError):
        stranger.sendall(sent)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(100) == b""


def test_a_token_is_of_one_attempt(server: LinkServer) -> None:
    other = LinkServer(Coordinator())
    try:
        host, port, _ = server.address
        with pytest.raises(ConnectorError, match="has ended this attempt"):
            Link((host, port, other.address[2])).call("echo")
    finally:
        other.close()
