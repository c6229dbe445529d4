"""Connections as the system knows them."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from gauss.dbstates.connector.connected import connected


def test_accepted_connections_over_both_ways_are_counted(tmp_path: Path) -> None:
    with ExitStack() as stack:
        network = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = network.getsockname()[1]
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(str(tmp_path / f".s.PGSQL.{port}"))
        local.listen()
        assert connected(port) == 0
        for number, server in enumerate((network, network, local), 1):
            client = stack.enter_context(socket.socket(server.family))
            client.connect(server.getsockname())
            stack.enter_context(server.accept()[0])
            assert connected(port) == number
    assert connected(port) == 0
