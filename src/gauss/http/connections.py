"""Limits of API connections: allowed networks, number, and the time for a request head."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gauss.contracts.network import Networks, is_loopback
from gauss.model.errors import GaussError

HEAD_BYTES = 32 << 10
HEAD_SECONDS = 10.0
"""Timeout for a complete request head, from the connection or the previous response."""
KEEP_ALIVE_SECONDS = 5
LINGER_SECONDS = 2.0
MOST_CONNECTIONS = 1000
MOST_WAITING = 128
"""Maximum idle connections; beyond it the one idle longest is closed for a new one."""
MOST_MESSAGE_BYTES = 1 << 20
"""Maximum size of a WebSocket message from a client."""
GOING_AWAY = 1001
_PROTOCOL_CODES = {431: "too_large"}


class HttpConnections:
    """The connections of one server."""

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._networks = Networks(allow)
        # Leave file descriptors for the files, pipes and children of the run.
        self._most = min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._waiting: dict[HttpConnection, None] = {}

    def protocol(self, **given: Any) -> HttpConnection:
        """Creates the protocol of a connection, for uvicorn."""
        return HttpConnection(self, **given)

    def admit(self, one: HttpConnection, count: int) -> bool:
        """Whether a new connection is accepted, as one of `count`."""
        if not self.allows(one.client[0] if one.client else ""):
            return False
        self._waiting[one] = None
        if len(self._waiting) > MOST_WAITING or count > self._most:
            oldest = next(iter(self._waiting))
            oldest.transport.abort()
            self.started(oldest)
            return oldest is not one
        return True

    def allows(self, host: str) -> bool:
        """Whether a peer may connect. Loopback is always allowed."""
        return is_loopback(host) or self._networks.allow(host)

    def waits(self, one: HttpConnection) -> None:
        self._waiting.setdefault(one)

    def started(self, one: HttpConnection) -> None:
        """Marks a connection as busy or closed."""
        self._waiting.pop(one, None)


class HttpConnection(H11Protocol):
    """HTTP/1.1 of uvicorn, with limits for the first request head and the number of connections."""

    def __init__(self, connections: HttpConnections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._head_timer: asyncio.TimerHandle | None = None
        self._lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._all.admit(self, len(self.connections)):
            transport.abort()
            return
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
            )  # detects a peer that vanished in the middle of a body
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingers:
            return
        super().data_received(data)
        self._judge()

    def eof_received(self) -> None:
        if self._lingers:
            self.transport.close()
        super().eof_received()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._judge()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._has_head()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for a parser error; chooses a more specific status."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        error = GaussError(
            f"the request head exceeds {HEAD_BYTES:,} bytes" if status == 431 else msg,
            hint="send HTTP/1.1",
        )
        error.code = _PROTOCOL_CODES.get(status, "config")
        body = json.dumps({"error": error.to_dict()}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        reason = HTTPStatus(status).phrase.encode()
        parts = (h11.Response(status_code=status, headers=headers, reason=reason), h11.Data(data=body))
        self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        self._linger()

    def _linger(self) -> None:
        """Closes the connection when the peer has closed its side, or after a timeout. Closing a socket with unread
        bytes would reset it, and the peer might lose the response."""
        if not self.transport.can_write_eof():  # TLS
            self.transport.close()
            return
        self._lingers = True
        self.transport.write_eof()
        self._has_head()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _judge(self) -> None:
        """Tracks whether the connection is idle."""
        if self._lingers or self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if self.cycle is None or self.cycle.response_complete:
            self._all.waits(self)
            if self._head_timer is None:
                self._expect_head()
        else:
            self._has_head()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _has_head(self) -> None:
        self._all.started(self)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Loop(asyncio.SelectorEventLoop):
    """An event loop with a shorter TLS handshake timeout than asyncio's minute."""

    async def create_server(self, *args: Any, **given: Any) -> asyncio.Server:
        if given.get("ssl") is not None:
            given["ssl_handshake_timeout"] = HEAD_SECONDS
        return await super().create_server(*args, **given)


class Socket(WebSocketsSansIOProtocol):
    """WebSocket of uvicorn that closes with \"going away\" at a stop, not \"service restart\"."""

    def shutdown(self) -> None:
        if self.handshake_complete and not self.close_sent:
            self.conn.send_close(GOING_AWAY, "the run is stopping")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.queue.put_nowait({"type": "websocket.disconnect", "code": GOING_AWAY})
            self.close_sent = True
        super().shutdown()
