"""An outgoing connection that reconnects with growing pauses."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gauss.contracts.edge import GREETED, HANDSHAKE
from gauss.contracts.transport import Connection
from gauss.plugins.transports.connection import HANDSHAKE_SECONDS, TcpConnection, hang_up, peer_name, start_thread, tune
from gauss.plugins.transports.tcp_client.spec import TcpClientConfig
from gauss.plugins.transports.tls import client_context

log = logging.getLogger("gauss.transport")

CONNECT_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 5.0


class TcpClient:
    """Keeps a connection to one peer until it is stopped."""

    def __init__(self, config: TcpClientConfig, base_dir: Path = Path()) -> None:
        self._config = config
        self._tls = client_context(config.tls, base_dir) if config.tls else None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._sock: socket.socket | None = None
        self._state = "connecting"
        self._accepted = 0
        self._attempts = 0
        self._last_error = ""
        self._tell: Callable[[str, str], None] = lambda _what, _why: None

    def start(self, serve: Callable[[Connection], None], tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._thread = start_thread(self._connect_loop, f"connect:{self._config.port}", serve)

    def address(self) -> tuple[str, int]:
        return self._config.host, self._config.port

    def state(self) -> dict[str, object]:
        return {
            "state": self._state,
            "address": f"{self._config.host}:{self._config.port}",
            "connections": 1 if self._state == "connected" else 0,
            "accepted": self._accepted,
            "refused": 0,
            "attempts": self._attempts,
            "last_error": self._last_error,
        }

    def stop_accepting(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._stop.set()
        sock = self._sock
        if sock is not None:
            hang_up(sock)
        if self._thread is not None:
            self._thread.join(CONNECT_SECONDS)

    def _connect_loop(self, serve: Callable[[Connection], None]) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.is_set():
            began = time.monotonic()
            self._attempts += 1
            self._connect_once(serve)
            # A peer that accepts and hangs up at once is waited for like one that refuses.
            if time.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            if self._stop.is_set():
                break
            self._state = "waiting"
            self._tell("waiting", f"no connection to {self._config.host}:{self._config.port}: {self._last_error}")
            self._stop.wait(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        self._state = "stopped"

    def _connect_once(self, serve: Callable[[Connection], None]) -> None:
        where = f"{self._config.host}:{self._config.port}"
        self._state = "connecting"
        try:
            with contextlib.closing(self._connected()) as sock:
                self._sock = sock
                if self._stop.is_set():
                    return
                self._state = "connected"
                self._accepted += 1
                log.info("connected to %s", where)
                serve(TcpConnection(sock, peer_name(sock.getpeername())))
            self._last_error = "the connection ended"
            log.info("connection to %s ended", where)
        except OSError as error:
            message = str(error.strerror or error)
            if message != self._last_error:  # logs the same error once, not per attempt
                log.warning("can't connect to %s: %s; retrying", where, message)
            self._last_error = message
        except Exception:
            log.exception("connection to %s failed", where)
        finally:
            self._sock = None

    def _connected(self) -> socket.socket:
        sock = socket.create_connection((self._config.host, self._config.port), timeout=CONNECT_SECONDS)
        try:
            tune(sock, self._config.keepalive)
            if self._tls is not None:
                assert self._config.tls is not None
                sock.settimeout(HANDSHAKE_SECONDS)
                peer = peer_name(sock.getpeername())
                self._tell(HANDSHAKE, peer)
                try:
                    name = self._config.tls.server_name or self._config.host
                    sock = self._tls.wrap_socket(sock, server_hostname=name)
                finally:
                    self._tell(GREETED, peer)
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        return sock
