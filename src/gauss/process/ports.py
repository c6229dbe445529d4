"""Free ports for servers that bind them later."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

LOWEST = 10_000
TRIES = 20


def free_port(host: str = "127.0.0.1", wanted: int = 0) -> int:
    """The wanted port if it is free, else another below the kernel's range of ephemeral ports, so that no outgoing
    connection takes it before the server binds it."""
    below = range(LOWEST, _first_ephemeral())
    chosen = [secrets.choice(below) for _ in range(TRIES)] if below else []
    for port in (*([wanted] if wanted else []), *chosen):
        if not bind_error(host, port):
            return port
    with socket.socket(_family(host)) as probe:  # none found: the kernel chooses
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def bind_error(host: str, port: int) -> str:
    """Why a server could not listen there; empty if it could."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
        return ""


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _first_ephemeral() -> int:
    """The first port of the range that the kernel gives to outgoing connections."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
