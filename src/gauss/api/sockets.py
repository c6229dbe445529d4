"""Sends a stream over a WebSocket: one message per line, and the reason for closing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec
from fastapi import WebSocket, WebSocketDisconnect

from gauss.http import errors
from gauss.http.connections import GOING_AWAY
from gauss.model.errors import GaussError
from gauss.stream.control.run import Running

Lines = AsyncGenerator[bytes, None]


async def serve_socket(socket: WebSocket, begin: Callable[[], Awaitable[Lines]]) -> None:
    """Sends the stream of `begin` until either side ends. An error is the last message."""
    await socket.accept()
    try:
        await _send_until_left(socket, await begin())
    except GaussError as error:
        await refuse(socket, error)
    except WebSocketDisconnect:
        pass


async def first_message(socket: WebSocket) -> str | bytes:
    """The first message of the client."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    said: str | bytes = message.get("text") or message.get("bytes") or b""
    return said


async def refuse(socket: WebSocket, error: GaussError) -> None:
    """Closes with the reason. A stopping run is not an error."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # the client may have disconnected
        if _is_stopping(socket):
            await _say_goodbye(socket)
            return
        await socket.send_text(msgspec.json.encode({"error": error.to_dict()}).decode())
        await socket.close(4000 + errors.status_of(error))


def _is_stopping(socket: WebSocket) -> bool:
    running: Running = socket.app.state.running
    return running.draining


async def _say_goodbye(socket: WebSocket) -> None:
    await socket.close(GOING_AWAY, "the run is stopping")


async def _send_until_left(socket: WebSocket, texts: Lines) -> None:
    """Sends a message per line until the stream ends or the client disconnects."""

    async def send() -> None:
        async for text in texts:
            for line in text.splitlines():
                await socket.send_text(line.decode())
        await (_say_goodbye(socket) if _is_stopping(socket) else socket.close())

    async def listen() -> None:
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass

    tasks = [asyncio.create_task(send()), asyncio.create_task(listen())]
    try:
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for task in done:
            task.result()
    finally:
        await texts.aclose()
