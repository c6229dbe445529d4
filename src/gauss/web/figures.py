"""Figures that pages read again and again: compressed, and not sent again while they are the same."""

from __future__ import annotations

import gzip
import re

from xxhash import xxh3_64_hexdigest

from gauss.http.body import App, Message, Receive, Scope, Send, header

_FIGURES = re.compile(
    "/api/(overview|history|graph|health|processes|logs|dlq|readers|syncs(/.*)?|topics/[^/]+|processors/[^/]+(/.*)?)"
)
"""Not those with records: a browser keeps what it may ask for again."""
MIN_BYTES = 1000
"""Smaller answers are not compressed."""
_LEVEL = 4


class Figures:
    """ASGI middleware: adds an `ETag` to figures, so that a browser asks only whether they have changed."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _FIGURES.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        started: Message | None = None
        body = b""

        async def sent(message: Message) -> None:
            nonlocal started, body
            if message["type"] == "http.response.start":
                if message["status"] != 200:
                    await send(message)
                else:
                    started = message
            elif started is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await _answer(scope, started, body, send)

        await self._app(scope, receive, sent)


async def _answer(scope: Scope, started: Message, body: bytes, send: Send) -> None:
    tag = f'"{xxh3_64_hexdigest(body)}"'.encode()
    headers = [each for each in started["headers"] if each[0] != b"content-length"]
    headers += [(b"etag", tag), (b"cache-control", b"private, no-cache"), (b"vary", b"Accept-Encoding")]
    if tag.decode() in header(scope, b"if-none-match"):
        started, body = {**started, "status": 304}, b""
        headers = [each for each in headers if each[0] != b"content-type"]
    elif len(body) >= MIN_BYTES and "gzip" in header(scope, b"accept-encoding"):
        body = gzip.compress(body, _LEVEL)
        headers.append((b"content-encoding", b"gzip"))
    if started["status"] != 304:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({**started, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
