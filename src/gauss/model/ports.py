"""Free ports for servers that bind them only later."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

LOWEST = 10_000
TRIES = 20


def free_port(host: str = "127.0.0.1", wanted: int = 0) -> int:
    """The wanted port while nobody else has it, else a free one. It lies below those that the kernel gives to clients:
    whoever opens a connection meanwhile does not get it."""
    below = range(LOWEST, _first_of_clients())
    chosen = [secrets.choice(below) for _ in range(TRIES)] if below else []
    for port in (*([wanted] if wanted else []), *chosen):
        if is_free(host, port):
            return port
    with socket.socket(_family(host)) as probe:  # the kernel's own choice
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(host: str, port: int) -> bool:
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _first_of_clients() -> int:
    """Where the ports begin that the kernel gives to clients."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
