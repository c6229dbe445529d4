"""Transport contract: accepts or opens connections that carry byte streams."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from gauss.contracts.plugin import PluginSpec


@dataclass(frozen=True, kw_only=True)
class TransportSpec(PluginSpec):
    """Spec of a transport. `implementation(config, base_dir)` returns a `Transport`; `base_dir` is the base of relative
    paths."""

    KIND: ClassVar[str] = "transport"

    listens: bool
    """Whether it binds a local port. Two of them on one port are a config error."""


class Connection(Protocol):
    """A connected byte stream, after its TLS handshake."""

    sock: socket.socket
    peer: str


class Transport(Protocol):
    """Calls `serve(connection)` in a new thread for each connection, up to its limit of connections."""

    def start(self, serve: Callable[[Connection], None], tell: Callable[[str, str], None]) -> None:
        """Binds, or starts to connect. Raises a GaussError with a hint if the port is in use. Events are reported by
        `tell(what, why)`: `refused` for a refused peer, `waiting` while there is no peer to connect to, `handshake`
        and `greeted` with a peer at the start and end of its TLS handshake."""
        ...

    def address(self) -> tuple[str, int]: ...

    def state(self) -> dict[str, object]:
        """Status for `top` and health: connections, accepted, refused, last error."""
        ...

    def stop_accepting(self) -> None: ...

    def close(self) -> None:
        """Closes all connections and waits for their threads."""
        ...
