"""Limits on connections of the embedded ClickHouse's HTTP server: their number, and the time and size of headers."""

from __future__ import annotations

import contextlib
import http.client
import io
import select
import socket
import threading
import time
from typing import Any

MOST_CONNECTIONS = 512
MOST_UNPROVEN = 64
"""Maximum number of unauthenticated connections; beyond it the oldest of them is closed."""
HEAD_BYTES = 256 << 10
HEAD_SECONDS = 10.0
"""Time limit for request headers on an unauthenticated connection."""
IDLE_SECONDS = 600.0
"""Time limit for the next request on an authenticated connection, which clients keep open for reuse."""
BODY_SECONDS = 300.0
"""Time limit for each read of a body."""
LINGER_BYTES = 1 << 20
LINGER_SECONDS = 1.0
"""How much of a rejected body is read and discarded, so that its sender reads the response."""


class FrontConnections:
    """The open connections of a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unproven: dict[socket.socket, None] = {}
        self._proven: set[socket.socket] = set()

    def enter(self, sock: socket.socket) -> bool:
        """Adds a connection; returns whether it may stay."""
        with self._lock:
            if len(self._unproven) + len(self._proven) >= MOST_CONNECTIONS and not self._unproven:
                return False
            self._unproven[sock] = None
            crowded = len(self._unproven) + len(self._proven) > MOST_CONNECTIONS
            if crowded or len(self._unproven) > MOST_UNPROVEN:
                oldest = next(iter(self._unproven))
                del self._unproven[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it
                return oldest is not sock
            return True

    def prove(self, sock: socket.socket) -> None:
        """Marks a connection as authenticated."""
        with self._lock:
            if sock in self._unproven:
                del self._unproven[sock]
                self._proven.add(sock)

    def is_proven(self, sock: socket.socket) -> bool:
        return sock in self._proven

    def leave(self, sock: socket.socket) -> None:
        with self._lock:
            self._unproven.pop(sock, None)
            self._proven.discard(sock)


class TimedReads(io.RawIOBase):
    """Reads from a socket with a time limit and, for headers, a size limit. The socket has no timeout of its own, since
    that would apply to sends too."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._deadline: float | None = None
        self._left: int | None = None

    def limit(self, seconds: float | None, size: int | None = None) -> None:
        """Limits further reads: all within `seconds` (None: each within BODY_SECONDS), and to about `size` bytes."""
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = BODY_SECONDS if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0 or not self._poll.poll(left * 1000):
            raise TimeoutError("the client did not send its request in time")
        count = self._sock.recv_into(buffer)
        if self._left is not None:
            self._left -= count
            if self._left < 0:
                raise http.client.LineTooLong("head")  # results in a 431 response
        return count
