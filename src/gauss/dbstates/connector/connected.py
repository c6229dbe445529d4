"""Connections of clients as the system knows them, for a server that can't be asked."""

from __future__ import annotations

from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Sockets of IPv6 connect to addresses of IPv4 too, as those of Java do."""
_ESTABLISHED = "01"


def connected(port: int) -> int:
    """Connections to a port of loopback that a client has open. Its end counts, not the server's, which stays open for
    a while after the client has left. Only the engine and its tools use the Unix socket of a server."""
    wanted = f":{port:04X}"
    found = [line.split() for table in _TABLES if table.exists() for line in table.read_text().splitlines()[1:]]
    return sum(words[2].endswith(wanted) and words[3] == _ESTABLISHED for words in found)
