"""Limits of size and time for the body of a request, and the connection behind a body that was refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

Scope = MutableMapping[str, Any]
Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES = 1 << 20
BODY_SECONDS = 30.0
LINGER_BYTES = 1 << 20
LINGER_SECONDS = 1.0
"""Bytes of a refused body that are discarded before the connection is closed, so that the sender reads the response."""


def header(scope: Scope, name: bytes) -> str:
    """The first header with a name, or empty."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


class BodyReceiver:
    """Receives one request body, and closes the connection after the response if the body is incomplete."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, streamed: bool = False) -> None:
        """`streamed`: a body without limits of size and time."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._most = None if streamed else MOST_BODY_BYTES
        self._until = None if streamed else time.monotonic() + BODY_SECONDS
        self._size = 0
        self._answered = False
        self._done = not header(scope, b"transfer-encoding") and _length(scope) == 0

    def is_declared_too_large(self) -> bool:
        return self._most is not None and _length(self._scope) > self._most

    async def receive(self) -> Message:
        """The next part of the body. Raises 413 if it is too large, 408 if it is too slow."""
        if self._done:
            return await self._receive()
        try:
            left = None if self._until is None else max(self._until - time.monotonic(), 0)
            message = await asyncio.wait_for(self._receive(), left)
        except TimeoutError:
            return self._over(408, f"the body was not complete within {BODY_SECONDS:g} s")
        self._size += len(message.get("body", b""))
        self._done = message["type"] == "http.disconnect" or not message.get("more_body", False)
        if self._most is not None and self._size > self._most:
            return self._over(413, too_large(self._scope))
        return message

    def _over(self, status: int, why: str) -> Message:
        if self._answered:
            return {"type": "http.disconnect"}
        raise HTTPException(status, why)

    async def send(self, message: Message) -> None:
        """Sends the response; closes the connection if the body is incomplete."""
        if message["type"] == "http.response.start":
            self._answered = True
            if not self._done:
                message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        elif not message.get("more_body", False) and not self._done:
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _linger(self) -> None:
        deadline, most = time.monotonic() + LINGER_SECONDS, self._size + LINGER_BYTES
        while not self._done and self._size < most and (left := deadline - time.monotonic()) > 0:
            try:
                message = await asyncio.wait_for(self._receive(), left)
            except TimeoutError:
                return
            self._size += len(message.get("body", b""))
            self._done = message["type"] == "http.disconnect" or not message.get("more_body", False)


def too_large(scope: Scope) -> str:
    return f"the body of {scope['method']} {scope['path']} exceeds {MOST_BODY_BYTES:,} bytes"


def _length(scope: Scope) -> int:
    """`Content-Length`, checked by the HTTP parser; 0 if missing."""
    return int(header(scope, b"content-length") or 0)
