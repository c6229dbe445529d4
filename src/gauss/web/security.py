"""The Content-Security-Policy of pages. NiceGUI writes scripts and styles into its page; each gets the nonce of its
response, so that nothing else in a page can run."""

from __future__ import annotations

import re
import secrets

from gauss.http.body import App, Message, Receive, Scope, Send

_OPENING = re.compile(rb"<(script|style)(?=[\s>])")
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)


class ContentPolicy:
    """ASGI middleware: adds the policy to HTML pages, and its nonce to their scripts and styles."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A proxy's prefix would be written into the page; there is none before a run.
        scope["headers"] = [each for each in scope["headers"] if each[0] != b"x-forwarded-prefix"]
        started: Message | None = None
        body = b""

        async def rewritten(message: Message) -> None:
            nonlocal started, body
            if message["type"] == "http.response.start":
                if not _is_html(message):
                    await send(message)
                    return
                started = message
            elif started is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await _send_page(started, body, send)

        await self._app(scope, receive, rewritten)


def _is_html(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/html") for name, value in message["headers"])


async def _send_page(started: Message, body: bytes, send: Send) -> None:
    nonce = secrets.token_urlsafe(18)
    body = body.replace(b'style="display: none"', b"hidden")  # NiceGUI's; the policy forbids style attributes
    body = _OPENING.sub(rb'<\1 nonce="' + nonce.encode() + b'"', body)
    headers = [each for each in started["headers"] if each[0] not in (b"content-length", b"cache-control")]
    headers += [
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", _POLICY.format(nonce=nonce).encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
    ]
    await send({**started, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
