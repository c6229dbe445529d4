"""Connections as the system knows them."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from gauss.dbstates.connector.connected import connected


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_connections_count_until_their_clients_close_them(family: socket.AddressFamily) -> None:
    mapped = "::ffff:127.0.0.1" if family == socket.AF_INET6 else "127.0.0.1"
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        assert connected(port) == 0
        clients = []
        for number in (1, 2):
            clients.append(stack.enter_context(socket.socket(family)))
            clients[-1].connect((mapped, port))
            stack.enter_context(server.accept()[0])
            assert connected(port) == number
        clients[0].close()
        assert connected(port) == 1
