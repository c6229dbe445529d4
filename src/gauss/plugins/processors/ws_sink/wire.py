"""The socket of a WebSocket client: the opening handshake, control frames and the closing handshake."""

from __future__ import annotations

import contextlib
import hmac
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from websockets.frames import CloseCode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from gauss.model.errors import GaussError
from gauss.plugins.processors.tcp_sink.client import PeerGone, Stop
from gauss.plugins.processors.tcp_sink.wire import DISCARD_BYTES, LINGER_SECONDS, Buffer, Wire
from gauss.plugins.processors.ws_sink.spec import WsSinkConfig
from gauss.plugins.transports.connection import HANDSHAKE_SECONDS

MOST_HEARD = 1 << 20
"""Maximum size of a client's message; a longer one closes its connection."""


class Refused(GaussError):
    """A request that is not a valid opening handshake, or is not permitted."""

    code = "refused"


def open_handshake(sock: socket.socket, config: WsSinkConfig) -> ServerProtocol:
    """Answers a client's opening handshake; if it is rejected, sends the response and raises Refused."""
    protocol = ServerProtocol(max_size=MOST_HEARD)
    deadline = time.monotonic() + HANDSHAKE_SECONDS
    requests: Sequence[object] = ()
    while not requests:
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = sock.recv(DISCARD_BYTES)
        except TimeoutError:
            raise Refused(f"its request was not complete within {HANDSHAKE_SECONDS:g} s") from None
        if not data:
            raise Refused("it disconnected before its request was complete")
        protocol.receive_data(data)
        if protocol.handshake_exc is not None:
            raise Refused(f"its request is not HTTP: {protocol.handshake_exc}")
        requests = protocol.events_received()
    request = requests[0]
    assert isinstance(request, Request)
    status, why = _judge(request, config)
    response = protocol.accept(request) if status is HTTPStatus.OK else protocol.reject(status, f"{why}\n")
    protocol.send_response(response)
    for part in protocol.data_to_send():
        sock.sendall(part)
    if protocol.state is not State.OPEN:
        raise Refused(why or f"its request is not an opening handshake ({response.status_code})")
    return protocol


def _judge(request: Request, config: WsSinkConfig) -> tuple[HTTPStatus, str]:
    url = urlsplit(request.path)
    if url.path != config.path:
        return HTTPStatus.NOT_FOUND, f"expected the path {config.path}, found {url.path}"
    if config.token is not None:
        scheme, _, given = "".join(request.headers.get_all("Authorization")[:1]).partition(" ")
        if scheme.lower() != "bearer":
            given = parse_qs(url.query).get("token", [""])[0]
        if not hmac.compare_digest(given.strip().encode(), config.token.encode()):
            why = "the request has no valid token" if given else "the request has no token"
            return HTTPStatus.UNAUTHORIZED, why
    for origin in request.headers.get_all("Origin"):
        if not config.takes_origin(origin):
            return HTTPStatus.FORBIDDEN, f'pages of {origin} may not connect: name it in "origins", or set a "token"'
    return HTTPStatus.OK, ""


class WsWire(Wire):
    """Sends encoded frames, and answers pings and close frames between them."""

    def __init__(self, sock: socket.socket, protocol: ServerProtocol, stop: Stop) -> None:
        super().__init__(sock)
        self._protocol = protocol
        self._stop = stop

    def send(self, buffers: Sequence[Buffer], stalled: Callable[[], None]) -> None:
        super().send(buffers, stalled)
        if self.peer_has_gone():  # also while sending: the client may ping or close
            raise PeerGone("the client closed the connection")

    def peer_has_gone(self) -> bool:
        """Whether the client closed, by a frame or otherwise; also answers its pings and discards its messages."""
        while (data := self._heard()) is not None:
            if not data:
                return True
            self._protocol.receive_data(data)
            self._protocol.events_received()
            self._answer()
            if self._protocol.state is not State.OPEN:
                return True
        return False

    def _answer(self) -> None:
        """Sends pending pongs and close frames."""
        with contextlib.suppress(OSError, PeerGone):
            super().send([part for part in self._protocol.data_to_send() if part], _not_reading)

    def _heard(self) -> bytes | None:
        """The bytes that the client has sent; None if there are none, empty if it has disconnected."""
        sock = self._sock
        try:
            if not self._tls:
                return sock.recv(DISCARD_BYTES, socket.MSG_DONTWAIT)
            before = sock.gettimeout()
            sock.settimeout(0)
            try:
                return sock.recv(DISCARD_BYTES)
            finally:
                sock.settimeout(before)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError:
            return b""

    def finish(self) -> None:
        """Sends a close frame, then ends the stream when the client has answered it."""
        if self._protocol.state is State.OPEN:
            is_stopping = self._stop.at is not None or self._stop.now.is_set()
            self._protocol.send_close(CloseCode.GOING_AWAY if is_stopping else CloseCode.NORMAL_CLOSURE)
            self._answer()
        deadline = time.monotonic() + LINGER_SECONDS
        while time.monotonic() < deadline and self._protocol.close_rcvd is None and (data := self._heard()) != b"":
            if data is None:
                time.sleep(0.01)
            else:
                self._protocol.receive_data(data)
                self._protocol.events_received()
        super().finish()


def _not_reading() -> None:
    raise PeerGone("the client does not read")
