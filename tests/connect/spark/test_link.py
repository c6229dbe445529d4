"""The link between tasks and the process that runs their sync."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gauss.connect.spark.link import GONE_S, Link, LinkServer
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from helpers.waiting import wait_until


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


def test_values_of_any_size_are_returned(link: Link) -> None:
    large = b"\x00\xff" * 3_000_000
    assert link.call("echo", large, None, "ü", 1 << 40) == ["echo", large, None, "ü", 1 << 40]


def test_error_keeps_its_category_and_the_link_stays_usable(link: Link) -> None:
    with pytest.raises(ConnectorError, match="not allowed") as raised:
        link.call("fail")
    assert raised.value.category is ErrorCategory.PERMISSION
    with pytest.raises(ConnectorError, match="a fault of the coordinator"):
        link.call("break")
    assert link.call("echo") == ["echo"]


def test_answer_contains_the_drain_flag(link: Link, coordinator: Coordinator) -> None:
    link.call("echo")
    assert not link.draining
    coordinator.draining = True
    link.call("echo")
    assert link.draining


def test_closed_server_ends_its_tasks(server: LinkServer, link: Link) -> None:
    link.call("echo")
    server.close()
    with pytest.raises(ConnectorError, match="has ended this attempt"):
        link.call("echo")
    with pytest.raises(ConnectorError, match="has ended this attempt"):
        Link(server.address).call("echo")


def test_a_peer_whose_machine_vanishes_is_noticed_by_both_ends(server: LinkServer, link: Link) -> None:
    link.call("echo")
    for end in (link._connection, *server._open):
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle, interval, count = (end.getsockopt(socket.IPPROTO_TCP, option) for option in options)
        assert idle + interval * count <= GONE_S
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == GONE_S * 1000
    assert len(server._open) == 1


@pytest.mark.parametrize("sent", [b"\x00\x00\x00\x20" + b"x" * 32, b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b""])
def test_client_without_the_token_gets_no_answer(server: LinkServer, sent: bytes) -> None:
    host, port, _ = server.address
    # It may be closed before it has read all of it.
    with socket.create_connection((host, port), timeout=20) as stranger, contextlib.suppress(OSError):
        stranger.sendall(sent)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(100) == b""


def test_token_is_valid_for_one_attempt(server: LinkServer) -> None:
    other = LinkServer(Coordinator())
    try:
        host, port, _ = server.address
        with pytest.raises(ConnectorError, match="has ended this attempt"):
            Link((host, port, other.address[2])).call("echo")
    finally:
        other.close()


def test_a_server_that_has_no_file_descriptor_left_accepts_the_task_later(
    server: LinkServer, caplog: pytest.LogCaptureFixture
) -> None:
    host, port, token = server.address
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as task, caplog.at_level(logging.WARNING, "gauss.connect"):
        task.settimeout(10)
        os.close(free := os.dup(task.fileno()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            task.connect((host, port))
            wait_until(lambda: "could not be accepted" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for frame in (token, msgspec.msgpack.encode(("echo", []))):
            task.sendall(struct.pack(">I", len(frame)) + frame)
        assert task.recv(4)
