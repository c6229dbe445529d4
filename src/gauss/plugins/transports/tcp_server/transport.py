"""A listener: one thread accepts, each connection has a thread of its own."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import resource
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gauss.contracts.edge import GREETED, HANDSHAKE
from gauss.contracts.transport import Connection
from gauss.model.errors import GaussError, Unavailable
from gauss.plugins.transports.connection import (
    HANDSHAKE_SECONDS,
    TcpConnection,
    hang_up,
    peer_name,
    plain_host,
    start_thread,
    tune,
)
from gauss.plugins.transports.tcp_server.spec import ServerConfig
from gauss.plugins.transports.tls import server_context

log = logging.getLogger("gauss.transport")

BACKLOG = 1024
CLOSE_SECONDS = 5.0
SPARE_FILES = 512


class TcpServer:
    """Accepts up to `max_connections` peers of the allow list."""

    def __init__(self, config: ServerConfig, base_dir: Path = Path()) -> None:
        self._config = config
        self._networks = [ipaddress.ip_network(entry, strict=False) for entry in config.allow]
        self._tls = server_context(config.tls, base_dir) if config.tls else None
        self._listener: socket.socket | None = None
        self._address = (config.host, config.port)
        self._threads: dict[socket.socket, threading.Thread | None] = {}
        self._lock = threading.Lock()
        self._accepting: threading.Thread | None = None
        self._wake_read, self._wake_write = socket.socketpair()
        self._stopped = False
        self._accepted = 0
        self._refused = 0
        self._last_error = ""
        self._last_logged = 0.0
        self._tell: Callable[[str, str], None] = lambda _what, _why: None

    def start(self, serve: Callable[[Connection], None], tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        _allow_open_files(self._config.max_connections)
        self._listener = self._bind()
        self._accepting = start_thread(self._accept_loop, f"accept:{self._address[1]}", serve)

    def address(self) -> tuple[str, int]:
        return self._address

    def state(self) -> dict[str, object]:
        return {
            "state": "stopped" if self._stopped else "listening",
            "address": f"{self._address[0]}:{self._address[1]}",
            "connections": len(self._threads),
            "accepted": self._accepted,
            "refused": self._refused,
            "last_error": self._last_error,
        }

    def stop_accepting(self) -> None:
        self._stopped = True
        with contextlib.suppress(OSError):
            self._wake_write.send(b"x")
        if self._accepting is not None:
            self._accepting.join(CLOSE_SECONDS)
            self._accepting = None

    def close(self) -> None:
        self.stop_accepting()
        with self._lock:
            open_now = dict(self._threads)
        for sock in open_now:
            hang_up(sock)
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in open_now.values():
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        self._wake_read.close()
        self._wake_write.close()

    def _bind(self) -> socket.socket:
        host, port = self._config.host, self._config.port
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except socket.gaierror as error:
            raise GaussError(
                f'can\'t bind "{host}": {error.strerror}', hint="set host to an address of this machine"
            ) from error
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                raise Unavailable(
                    f"port {port} on {host} is in use",
                    hint=f"stop the process that listens there (ss -ltnp 'sport = :{port}') or set another port",
                ) from error
            raise GaussError(
                f"can't listen on {host}:{port}: {error.strerror}",
                hint="ports below 1024 need privileges"
                if error.errno == errno.EACCES
                else "set host to an address of this machine",
            ) from error
        bound = listener.getsockname()
        self._address = (host, bound[1])
        return listener

    def _accept_loop(self, serve: Callable[[Connection], None]) -> None:
        assert self._listener is not None
        with self._listener as listener, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while not self._stopped:
                selector.select()
                try:
                    while not self._stopped:
                        self._admit(*listener.accept(), serve)
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno not in (errno.ECONNABORTED, errno.EPROTO):
                        # Out of descriptors or memory: the peer stays in the backlog, so leave time for others to end.
                        self._last_error = f"accept: {error.strerror}"
                        self._log_rarely("port %d can't accept: %s", self._address[1], error.strerror)
                        time.sleep(0.2)

    def _admit(self, sock: socket.socket, address: tuple[str, int], serve: Callable[[Connection], None]) -> None:
        peer = peer_name(address)
        if self._networks and not self._allowed(address[0]):
            self._refuse(sock, peer, "not in the allow list")
            return
        if len(self._threads) >= self._config.max_connections:
            self._refuse(sock, peer, f"max_connections = {self._config.max_connections} reached")
            return
        with self._lock:
            self._threads[sock] = None
        try:
            sock.setblocking(True)
            start_thread(self._run, f"tcp:{self._address[1]}:{peer}", sock, peer, serve)
        except (OSError, RuntimeError) as error:  # the process has no thread left to give
            self._forget(sock)
            self._refuse(sock, peer, str(error))

    def _allowed(self, host: str) -> bool:
        address = ipaddress.ip_address(plain_host(host))
        return any(address in network for network in self._networks)

    def _run(self, sock: socket.socket, peer: str, serve: Callable[[Connection], None]) -> None:
        stream = sock
        with self._lock:
            self._threads[sock] = threading.current_thread()
        try:
            tune(sock, self._config.keepalive)
            if self._tls is not None:
                # In this thread and with a limit: a peer that never finishes its handshake holds up nobody.
                stream = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                with self._lock:
                    self._threads[stream] = self._threads.pop(sock, None)
                stream.settimeout(HANDSHAKE_SECONDS)
                self._tell(HANDSHAKE, peer)
                try:
                    stream.do_handshake()
                finally:
                    self._tell(GREETED, peer)
                stream.settimeout(None)
            with self._lock:
                self._accepted += 1
            serve(TcpConnection(stream, peer))
        except ssl.SSLError as error:
            self._count_refusal(peer, f"TLS: {error.reason or error}")
        except TimeoutError:
            self._count_refusal(peer, f"TLS handshake not finished within {HANDSHAKE_SECONDS:.0f} s")
        except OSError as error:
            self._last_error = f"{peer}: {error.strerror or error}"
        except Exception:
            log.exception("connection %s failed", peer)
        finally:
            stream.close()
            self._forget(stream)

    def _forget(self, sock: socket.socket) -> None:
        with self._lock:
            self._threads.pop(sock, None)

    def _refuse(self, sock: socket.socket, peer: str, reason: str) -> None:
        self._count_refusal(peer, reason)
        sock.close()

    def _count_refusal(self, peer: str, reason: str) -> None:
        with self._lock:
            self._refused += 1
        self._last_error = f"{peer} refused: {reason}"
        self._tell("refused", self._last_error)
        message = "port %d: %s refused: %s (%d refused so far)"
        self._log_rarely(message, self._address[1], peer, reason, self._refused)

    def _log_rarely(self, message: str, *values: object) -> None:
        """Logs at most one line per second."""
        if time.monotonic() - self._last_logged >= 1.0:
            self._last_logged = time.monotonic()
            log.warning(message, *values)


def _allow_open_files(connections: int) -> None:
    """Raises the limit of open files for this many connections, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(list(Path("/proc/self/fd").iterdir())) + connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = max(wanted, 2 * soft)  # the next listener needs its own
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
