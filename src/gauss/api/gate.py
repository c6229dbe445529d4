"""The ASGI middleware in front of every route: a request is judged by its head before any of its body is read, and a
body is bounded in size and time."""

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
"""Bodies of any length that are taken piece by piece, for as long as their sender likes."""
LINGER_BYTES = 1 << 20
LINGER_SECONDS = 1.0
"""How much of a refused body is thrown away before the connection is closed, so that its sender reads the answer."""


class Gate:
    """Refuses what has no token or asks for too much; passes the rest on."""

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
        body = Body(scope, receive, send)
        if refused is None and body.is_declared_too_large():
            refused = errors.TooLarge(_too_large(scope))
        if refused is None:
            await self._app(scope, body.receive, body.send)
        else:
            await _answer(scope, refused)(scope, body.receive, body.send)


class Body:
    """One request's body on its way in, and the answer's way out, which ends the connection if the body has not."""

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
        """The next piece; raises 413 or 408 when it is more than may come, or comes too slowly."""
        if self._done:
            return await self._receive()
        try:
            left = None if self._until is None else max(self._until - time.monotonic(), 0)
            message = await asyncio.wait_for(self._receive(), left)
        except TimeoutError:
            return self._over(408, f"the body was not whole within {BODY_SECONDS:g} s")
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
        """Hands the answer on; when the body is not whole by then, closes the connection behind it."""
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
    return f"the body of {scope['method']} {scope['path']} has more than {MOST_BODY_BYTES:,} bytes"


def _length(scope: Scope) -> int:
    """`Content-Length`, which the HTTP parser has checked; 0 without one."""
    return int(header(scope, b"content-length") or 0)


def _answer(scope: Scope, refused: GaussError) -> Response:
    if scope["method"] == "GET" and "text/html" in header(scope, b"accept"):
        return pages.refused(refused, errors.status_of(refused))
    return errors.reply(refused)


async def _deny(scope: Scope, receive: Receive, send: Send, refused: GaussError) -> None:
    """Answers a handshake by an HTTP status: nothing that its sender says afterwards is read."""
    await receive()
    await errors.reply(refused)(scope, receive, send)
