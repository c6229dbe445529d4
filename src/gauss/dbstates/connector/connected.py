"""Connections of clients as the system knows them, for a server that can't be asked."""

from __future__ import annotations

import re
from pathlib import Path

_ESTABLISHED = "01"
_CONNECTED = "03"


def connected(port: int) -> int:
    """Accepted connections to a Postgres at a port, over loopback and over its socket."""
    return _over_network(port) + _over_socket(port)


def _over_network(port: int) -> int:
    local = f":{port:04X}"
    found = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(words[1].endswith(local) and words[3] == _ESTABLISHED for words in found)


def _over_socket(port: int) -> int:
    name = re.compile(rf"/\.s\.PGSQL\.{port}$")
    found = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sum(len(words) > 7 and words[5] == _CONNECTED and bool(name.search(words[7])) for words in found)
