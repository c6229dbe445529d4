"""Cursors by their blobs, for clients of other languages: program and step in, code and batch out, as
`docs/scan-programs.md` lays them out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse
from pyarrow import flight
from starlette.concurrency import run_in_threadpool

from gauss.api.sockets import refuse
from gauss.clients.engine.client import as_gauss_error
from gauss.clients.engine.cursor_messages import Ask
from gauss.clients.engine.cursors import RemoteCursor
from gauss.contracts.cursor import Code, Step
from gauss.http.tail import DeliveryWatch, follow, in_pieces
from gauss.model.errors import ConfigError, GaussError
from gauss.scan.program.blob import decode_program, encode_step
from gauss.scan.program.wire import MAX_BLOB
from gauss.stream.control.run import Running

BLOBS = "application/x-gauss-blobs"
_HEAD = struct.Struct("<BI")

MOST_STEP = 2**32 - 1
Limit = Annotated[int, Query(ge=1, le=MOST_STEP, description="maximum rows of a batch")]
Bytes = Annotated[int, Query(ge=1, le=MOST_STEP, description="maximum bytes of a batch")]


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api/topics", tags=["scans"])

    def opened(name: str, blob: bytes) -> RemoteCursor:
        return running.client().scan_cursor(name, decode_program(blob), name="cursor")

    @router.post("/{name}/cursor", summary="Every batch of a program's blob: code, length (u32), blob, until the end")
    async def scan(
        request: Request, name: str, limit: Limit = Step.limit, max_bytes: Bytes = Step.max_bytes
    ) -> Response:
        cursor = await run_in_threadpool(opened, name, await _body(request))
        steps, taken = Steps(cursor, Step(limit, max_bytes)), DeliveryWatch()
        return StreamingResponse(in_pieces(follow(steps, bytes, taken=taken), taken), media_type=BLOBS)

    @router.websocket("/{name}/cursor")
    async def step_by_step(socket: WebSocket, name: str) -> None:
        """A program's blob, then a step's blob for each batch: see docs/scan-programs.md"""
        await socket.accept()
        cursor: RemoteCursor | None = None
        try:
            cursor = await run_in_threadpool(opened, name, await _message(socket))
            await socket.send_text(msgspec.json.encode(cursor.opened).decode())
            while True:
                step = await _message(socket)
                code, blob = await run_in_threadpool(take, cursor, step)
                await socket.send_bytes(bytes([code]) + blob)
        except flight.FlightError as error:
            await refuse(socket, as_gauss_error(error))
        except GaussError as error:
            await refuse(socket, error)
        except WebSocketDisconnect:
            pass
        finally:
            if cursor is not None:
                cursor.cancel()

    return router


def take(cursor: RemoteCursor, step: bytes) -> tuple[Code, bytes]:
    """The next batch as a blob, or the code if there is none."""
    code, _ = cursor.ask(Ask.NEXT, step)
    return cursor.ask(Ask.READ) if code is Code.OK else (code, b"")


class Steps:
    """Repeats a step until the end, which is included."""

    def __init__(self, cursor: RemoteCursor, step: Step) -> None:
        self._cursor = cursor
        self._step = encode_step(step)
        self._cancelled = False

    def __iter__(self) -> Iterator[bytes]:
        code = Code.OK
        try:
            while code is Code.OK:
                code, blob = take(self._cursor, self._step)
                yield _HEAD.pack(code, len(blob)) + blob
        except flight.FlightError as error:
            if not self._cancelled:
                raise as_gauss_error(error) from error

    def keep(self) -> None:
        self._cursor.wait(0)

    def cancel(self) -> None:
        self._cancelled = True
        self._cursor.cancel()


async def _body(request: Request) -> bytes:
    found = b""
    async for piece in request.stream():
        found += piece
        if len(found) > MAX_BLOB:
            raise ConfigError(f"the program exceeds {MAX_BLOB} bytes")
    return found


async def _message(socket: WebSocket) -> bytes:
    """The next message. A client that sends none during its lease loses the cursor."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect
    if message.get("bytes") is None:
        raise ConfigError(
            "expected a binary message: a program, then steps", hint="see their layout with gauss docs scan-programs"
        )
    found: bytes = message["bytes"]
    return found
