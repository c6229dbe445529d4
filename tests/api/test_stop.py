"""Clients of the API during an orderly stop."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as ws_connect

from gauss.contracts.cursor import Mode, Program
from gauss.scan.program.blob import encode_program
from helpers.run import Run
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

PIPELINE = """
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [{ name = "symbol", type = "string" }, { name = "bid", type = "double" }] }

[[topics]]
name = "prices"
storage = "memory"
storage_config = { mode = "table", format = "quote", key_field = "symbol" }

[[topics]]
name = "quotes"
storage = "memory"
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started = Run(tmp_path, PIPELINE).start()
    yield started
    started.end()


def opened(stack: contextlib.ExitStack, run: Run, path: str, *first: str | bytes) -> ClientConnection:
    found = json.loads((run.data_dir / "engine.json").read_text())
    between = "&" if "?" in path else "?"
    url = found["endpoint"].replace("http", "ws") + f"/api/{path}{between}token={found['token']}"
    socket = stack.enter_context(ws_connect(url, open_timeout=60))
    for message in first:
        socket.send(message)
    return socket


def close_code(socket: ClientConnection) -> int:
    try:
        while True:
            socket.recv(60)
    except ConnectionClosed as closed:
        assert closed.rcvd is not None
        return closed.rcvd.code


def test_every_websocket_closes_with_1001_at_a_polite_stop(run: Run) -> None:
    run.api("/api/topics/prices/records", "POST", b'{"symbol": "A", "bid": 1}\n')
    with contextlib.ExitStack() as stack:
        clients = {
            "tail": opened(stack, run, "topics/quotes/tail"),
            "changes by message": opened(stack, run, "subscribe", '{"subscribe": "prices", "mode": "changes"}'),
            "snapshots by message": opened(stack, run, "subscribe", '{"subscribe": "prices"}'),
            "changes": opened(stack, run, "topics/prices/subscribe?mode=changes"),
            "snapshots": opened(stack, run, "topics/prices/subscribe"),
            "silent": opened(stack, run, "subscribe"),
            "cursor": opened(stack, run, "topics/quotes/cursor", encode_program(Program(mode=Mode.LIVE))),
        }
        wait_until(lambda: len(run.api("/api/scans")["scans"]) >= 5, what="all of them read")
        run.stop(60)
        assert {name: close_code(socket) for name, socket in clients.items()} == dict.fromkeys(clients, 1001)
