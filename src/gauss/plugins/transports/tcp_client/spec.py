"""tcp-client: connect, and connect again."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.transport import TransportSpec
from gauss.plugins.transports.tls_config import TlsConfig


class TcpClientConfig(PluginConfig):
    """An outgoing connection that is made again, with growing pauses, whenever it ends."""

    host: str
    """Name or address to connect to."""
    port: Annotated[int, Field(gt=0, le=65535)]
    """Port to connect to."""
    tls: TlsConfig | None = None
    """`ca` for a private authority, `cert` and `key` when the server asks for them."""
    keepalive: Millis = 60_000
    """Quiet time after which TCP probes whether the peer is still there."""

    @model_validator(mode="after")
    def _is_whole(self) -> TcpClientConfig:
        if self.tls is not None and (self.tls.cert is None) != (self.tls.key is None):
            raise PydanticCustomError("tls_cert", '"cert" and "key" go together in "{key}"', {"key": "tls"})
        return self


SPEC = TransportSpec(
    name="tcp-client",
    summary="Connects to a port and reconnects with backoff.",
    config=TcpClientConfig,
    implementation="gauss.plugins.transports.tcp_client.transport:TcpClient",
    listens=False,
)
