"""Transport: where byte streams come from and go to. A server accepts, a client connects and reconnects."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from gauss.contracts.plugin import PluginSpec


@dataclass(frozen=True, kw_only=True)
class TransportSpec(PluginSpec):
    """`implementation(config, base_dir)` gives a `Transport`; relative paths in the config start at `base_dir`."""

    KIND: ClassVar[str] = "transport"

    listens: bool
    """Binds a port of this machine: two of them on one port are a config error."""


class Connection(Protocol):
    """One byte stream, connected and past its TLS handshake."""

    sock: socket.socket
    peer: str


class Transport(Protocol):
    """Calls `serve(connection)` in a thread of its own for each connection; never holds more than its limit."""

    def start(self, serve: Callable[[Connection], None], tell: Callable[[str, str], None]) -> None:
        """Binds or begins to connect; raises a GaussError with a hint when the port is taken. `tell(what, why)`:
        `refused` when a peer was turned away, `waiting` while there is no peer to connect to, `handshake` and
        `greeted` with a peer whose TLS handshake begins and has ended in any way."""
        ...

    def address(self) -> tuple[str, int]: ...

    def state(self) -> dict[str, object]:
        """For `top` and health: connections, accepted, refused, last error."""
        ...

    def stop_accepting(self) -> None: ...

    def close(self) -> None:
        """Ends every connection and waits for its thread."""
        ...
