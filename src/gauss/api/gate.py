"""ASGI middleware before every route: checks the head before the body is read, and limits the size and time of
bodies."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

from starlette.responses import Response

from gauss.api import pages
from gauss.http import errors
from gauss.http.body import App, BodyReceiver, Message, Receive, Scope, Send, header, too_large
from gauss.http.errors import Forbidden, Unauthorized
from gauss.model.errors import GaussError

_STREAMED = re.compile(r"/api/topics/[^/]+/records/?")
"""Routes that stream a body without limits of size and time."""
SOCKET_CHECK_SECONDS = 5.0
"""How long an open WebSocket may be used before its token is looked at again."""
_POLICY_VIOLATION = 1008
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
]
"""Of every response: pages of other origins can neither frame nor embed it."""


class Gate:
    """Refuses requests without a valid token or with a too large body."""

    def __init__(
        self,
        app: App,
        refusal: Callable[[Scope], Awaitable[GaussError | None]],
        sign_in: str = pages.RUN_TOKENS,
    ) -> None:
        """`refusal`: the error for a request or WebSocket handshake, from its head. `sign_in`: where a person finds a
        token, as HTML."""
        self._app = app
        self._refusal = refusal
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = await self._refusal(scope)
        if scope["type"] == "websocket":
            if refused is not None:
                await _deny(scope, receive, send, refused)
                return
            await self._app(scope, receive, self._watched(scope, send))
            return
        streamed = scope["method"] == "POST" and _STREAMED.fullmatch(scope["path"]) is not None
        body = BodyReceiver(scope, receive, _guarded(send), streamed=streamed)
        if refused is None and body.is_declared_too_large():
            refused = errors.TooLarge(too_large(scope))
        if refused is None:
            await self._app(scope, body.receive, body.send)
        else:
            await self._answer(scope, refused)(scope, body.receive, body.send)

    def _watched(self, scope: Scope, send: Send) -> Send:
        """Closes a WebSocket before it sends anything more once its token is revoked or its session is over."""
        checked, is_closed = time.monotonic(), False

        async def sent(message: Message) -> None:
            nonlocal checked, is_closed
            if is_closed:
                return
            if message["type"] == "websocket.send" and time.monotonic() - checked > SOCKET_CHECK_SECONDS:
                checked = time.monotonic()
                if isinstance(await self._refusal(scope), Unauthorized | Forbidden):
                    is_closed = True
                    message = {"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "the session has ended"}
            await send(message)

        return sent

    def _answer(self, scope: Scope, refused: GaussError) -> Response:
        if scope["method"] == "GET" and "text/html" in header(scope, b"accept"):
            return pages.refused(refused, errors.status_of(refused), self._sign_in)
        return errors.reply(refused)


def _guarded(send: Send) -> Send:
    """Adds the headers of every response."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
        await send(message)

    return sent


async def _deny(scope: Scope, receive: Receive, send: Send, refused: GaussError) -> None:
    """Refuses a WebSocket handshake with an HTTP status."""
    await receive()
    await errors.reply(refused)(scope, receive, send)
