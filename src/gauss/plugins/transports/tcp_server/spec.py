"""tcp-server: bind, accept, limit."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.network import Network, is_loopback
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.transport import TransportSpec
from gauss.plugins.transports.tls_config import TlsConfig


class ServerConfig(PluginConfig):
    """A listener."""

    host: str = "127.0.0.1"
    """Address to bind; `0.0.0.0` for every interface, which then needs `allow`, or `tls` with a `ca`."""
    port: Annotated[int, Field(ge=0, le=65535)]
    """Port to bind; 0 for any free one."""
    tls: TlsConfig | None = None
    """`cert` and `key`, and `ca` to demand client certificates."""
    max_connections: Annotated[int, Field(gt=0)] = 1000
    """Connections above it are closed at once and counted as refused."""
    allow: tuple[Network, ...] = ()
    """Addresses and networks that may connect; empty: everybody who can reach the address."""
    keepalive: Millis = 60_000
    """Quiet time after which TCP probes whether the peer is still there."""

    @model_validator(mode="after")
    def _is_safe(self) -> ServerConfig:
        knows_clients = self.tls is not None and self.tls.ca is not None
        if not is_loopback(self.host) and not self.allow and not knows_clients:
            raise PydanticCustomError(
                "open_listener",
                'a listener on {host} can be reached from other machines, so it needs "{key}": the networks that may'
                ' connect, such as ["10.0.0.0/8"] (["0.0.0.0/0", "::/0"] for everybody), or "tls" with a "ca" that'
                " signed the certificates of its clients",
                {"host": self.host, "key": "allow"},
            )
        if self.tls is not None and (self.tls.cert is None or self.tls.key is None):
            raise PydanticCustomError("tls_cert", 'a TLS server needs "cert" and "key" in "{key}"', {"key": "tls"})
        return self


SPEC = TransportSpec(
    name="tcp-server",
    summary="Binds a port and accepts connections.",
    config=ServerConfig,
    implementation="gauss.plugins.transports.tcp_server.transport:TcpServer",
    listens=True,
)
