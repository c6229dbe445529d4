"""ASGI middleware before every route: checks the head before the body is read, and limits the size and time of
bodies."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from gauss.api import auth, errors, pages
from gauss.api.auth import Scope, header
from gauss.model.errors import GaussError
from gauss.stream.control.run import Running

Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES = 1 << 20
BODY_SECONDS = 30.0
_STREAMED = re.compile(r"/api/topics/[^/]+/records/?")
"""Routes that stream a body without limits of size and time."""
LINGER_BYTES = 1 << 20
LINGER_SECONDS = 1.0
"""Bytes of a refused body that are discarded before the connection is closed, so that the sender reads the response."""


class Gate:
    """Refuses requests without a valid token or with a too large body."""

    def __init__(self, app: App, running: Running) -> None:
        self._app = app
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = auth.refusal(scope, self._running.tokens)
        if scope["type"] == "websocket":
            if refused is not None:
                await _deny(scope, receive, send, refused)
                return
            await self._app(scope, receive, send)
            return
        body = BodyReceiver(scope, receive, send)
        if refused is None and body.is_declared_too_large():
            refused = errors.TooLarge(_too_large(scope))
        if refused is None:
            await self._app(scope, body.receive, body.send)
        else:
            await _answer(scope, refused)(scope, body.receive, body.send)


class BodyReceiver:
    """Receives one request body, and closes the connection after the response if the body is incomplete."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        streamed = scope["method"] == "POST" and _STREAMED.fullmatch(scope["path"]) is not None
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
            return self._over(413, _too_large(self._scope))
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


def _too_large(scope: Scope) -> str:
    return f"the body of {scope['method']} {scope['path']} exceeds {MOST_BODY_BYTES:,} bytes"


def _length(scope: Scope) -> int:
    """`Content-Length`, checked by the HTTP parser; 0 if missing."""
    return int(header(scope, b"content-length") or 0)


def _answer(scope: Scope, refused: GaussError) -> Response:
    if scope["method"] == "GET" and "text/html" in header(scope, b"accept"):
        return pages.refused(refused, errors.status_of(refused))
    return errors.reply(refused)


async def _deny(scope: Scope, receive: Receive, send: Send, refused: GaussError) -> None:
    """Refuses a WebSocket handshake with an HTTP status."""
    await receive()
    await errors.reply(refused)(scope, receive, send)
