"""Socket options and threads that both TCP transports use."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

HANDSHAKE_SECONDS = 10.0
STACK_BYTES = 1 << 20
_stack_lock = threading.Lock()


@dataclass
class TcpConnection:
    """One connected stream, past its TLS handshake."""

    sock: socket.socket
    peer: str


def tune(sock: socket.socket, keepalive_ms: int) -> None:
    """Sets TCP_NODELAY and keep-alive probes."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = max(1, keepalive_ms // 1000)
    for option, value in (("TCP_KEEPIDLE", idle), ("TCP_KEEPINTVL", max(1, idle // 6)), ("TCP_KEEPCNT", 5)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def hang_up(sock: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """Unblocks the thread that uses the socket; that thread closes it."""
    with contextlib.suppress(OSError):
        # Not SSLSocket.shutdown: it would drop the TLS state while another thread uses it.
        socket.socket.shutdown(sock, how)


def peer_name(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """`10.1.2.3:4567` or `[fe80::1]:4567`; an IPv4 peer of an IPv6 listener by its IPv4 address."""
    host, port = plain_host(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def plain_host(host: str) -> str:
    return host.removeprefix("::ffff:").partition("%")[0]


def start_thread(target: Callable[..., None], name: str, *args: object) -> threading.Thread:
    """A daemon thread with a small stack: a thousand connections must not reserve gigabytes."""
    thread = threading.Thread(target=target, name=name, args=args, daemon=True)
    with _stack_lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    return thread
