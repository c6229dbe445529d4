"""A client that does not read loses its cursor when the lease expires, over every transport; a slow client keeps it."""

from __future__ import annotations

import asyncio
import socket as sockets
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import uvicorn
from fastapi import FastAPI
from websockets.sync.client import connect as ws_connect

from gauss.api import cursors, scans
from gauss.clients.engine.client import EngineClient
from gauss.config.spec import Pipeline
from gauss.contracts.cursor import Mode, Output, Program, Seq
from gauss.http import tail
from gauss.scan.program.blob import encode_program
from gauss.stream.control.tails import ControlClient
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import prepare
from helpers.run import free_port
from helpers.waiting import wait_until

Client = Callable[[int], AbstractContextManager[None]]
CONFIG = {"topics": [{"name": "plain", "storage": "memory"}]}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(prepare(tmp_path_factory.mktemp("leases"), CONFIG).root)
    made.open()
    made.start()
    client = EngineClient.from_file(made.paths.flight_json, wait_s=60)
    batch = pa.record_batch({"data": pa.array([b"x" * 1000] * 20_000, pa.binary())})
    client.append("plain", [batch])
    client.close()
    yield made
    made.close()


@pytest.fixture(scope="module")
def port(engine: Engine) -> Iterator[int]:
    """The port of a server with the routes that read topics."""
    client = ControlClient.from_file(engine.paths.flight_json, wait_s=60)
    pipeline, known = Pipeline.model_validate(CONFIG), {"read_modes": ["offset"]}
    running: Any = SimpleNamespace(client=lambda: client, token="", pipeline=pipeline, command=lambda *_, **__: known)
    app = FastAPI()
    app.include_router(cursors.routes(running))
    app.include_router(scans.routes(running))
    chosen = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=chosen, log_level="error", ws_ping_interval=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, 60, "the server is up")
    yield chosen
    server.should_exit = True
    thread.join()
    client.close()


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.stream.engine.server.cursor_exchange.LEASE_S", 1.0)
    monkeypatch.setattr(tail, "KEEP_SECONDS", 0.05)


UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@contextmanager
def asking(port: int, path: str, body: bytes = b"", more: str = "") -> Iterator[None]:
    """A client that sends a request and does not read the response."""
    connection = sockets.socket()
    connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    method = "POST" if body else "GET"
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    yield
    connection.close()


@contextmanager
def websocket(port: int, program: bytes) -> Iterator[None]:
    """A client that opens a cursor and requests no step."""
    with ws_connect(f"ws://127.0.0.1:{port}/api/topics/plain/cursor", ping_interval=None) as connection:
        connection.send(program)
        connection.recv(60)
        yield


LIVE = encode_program(Program(Seq(), Mode.LIVE))
CHUNKS = encode_program(Program(output=Output.CHUNKS))
CLIENTS: dict[str, Client] = {
    "blobs over HTTP": lambda port: asking(port, "/api/topics/plain/cursor", LIVE),
    "chunks over HTTP": lambda port: asking(port, "/api/topics/plain/cursor", CHUNKS),
    "rows over HTTP": lambda port: asking(port, "/api/topics/plain/scan"),
    "live rows over HTTP": lambda port: asking(port, "/api/topics/plain/scan?live=true"),
    "a WebSocket cursor": lambda port: websocket(port, LIVE),
    "changes over WebSocket": lambda port: asking(port, "/api/topics/plain/subscribe?mode=changes", more=UPGRADE),
}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_g_stopped_client_loses_its_pin(engine: Engine, port: int, client: Client) -> None:
    source = engine.topic("plain").source
    wait_until(lambda: source.open_cursors() == 0, 60, "nobody reads")
    with client(port):
        wait_until(lambda: source.open_cursors() == 1, 60, "the cursor is open")
        wait_until(lambda: source.open_cursors() == 0, 60, "its lease has lapsed")
        assert source.watermark() is None


class Counting:
    """An endless stream of batches that counts renewals of its cursor."""

    kept = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield b"x" * (4 * tail.PIECE_BYTES)

    def keep(self) -> None:
        self.kept += 1

    def cancel(self) -> None:
        pass


def test_lease_is_renewed_for_every_piece_that_is_taken_and_for_nothing_else() -> None:
    stream, taken = Counting(), tail.DeliveryWatch()

    async def slowly() -> None:
        pieces = tail.in_pieces(tail.follow(stream, bytes, taken=taken), taken)
        assert len(await anext(pieces)) == tail.PIECE_BYTES
        for _ in range(3):  # within one batch, so that no request goes to the engine
            kept = stream.kept
            assert len(await anext(pieces)) == tail.PIECE_BYTES
            await _kept_again(stream, kept)
        stopped = stream.kept
        await asyncio.sleep(20 * tail.KEEP_SECONDS)
        assert stream.kept == stopped
        await pieces.aclose()

    asyncio.run(slowly())


async def _kept_again(stream: Counting, before: int) -> None:
    async with asyncio.timeout(60):
        while stream.kept == before:
            await asyncio.sleep(0.01)
