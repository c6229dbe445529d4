"""The transport's keys as a TCP source or sink writes them: flat, beside its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.network import Network
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.plugins.transports.tcp_client.spec import TcpClientConfig
from gauss.plugins.transports.tcp_server.spec import ServerConfig
from gauss.plugins.transports.tls_config import TlsConfig

_MODELS: dict[str, type[PluginConfig]] = {"tcp-server": ServerConfig, "tcp-client": TcpClientConfig}
_KEYS = ("host", "port", "tls", "max_connections", "allow", "keepalive")


class TcpEdgeConfig(PluginConfig):
    """What tcp-source and tcp-sink have in common."""

    transport: Literal["tcp-server", "tcp-client"] = "tcp-server"
    """`tcp-server` binds `port` and accepts; `tcp-client` connects to `host`:`port` and reconnects."""
    host: str | None = None
    """Address to bind (default 127.0.0.1) or, for a client, to connect to (required)."""
    port: Annotated[int, Field(ge=0, le=65535)]
    """Port to bind or to connect to."""
    tls: TlsConfig | None = None
    """TLS: `cert`, `key`, `ca`, `verify`, `server_name`."""
    max_connections: Annotated[int, Field(gt=0)] | None = None
    """Server: connections above it (default 1000) are closed at once and counted as refused."""
    allow: tuple[Network, ...] | None = None
    """Server: addresses and networks that may connect; required beyond loopback, unless `tls` has a `ca`."""
    keepalive: Millis = 60_000
    """Quiet time after which TCP probes whether the peer is still there."""

    def transport_config(self) -> tuple[str, dict[str, Any]]:
        """The transport's name, and its config as its own model takes it."""
        given = {key: getattr(self, key) for key in _KEYS}
        config = {key: value for key, value in given.items() if value is not None}
        config["keepalive"] = f"{self.keepalive}ms"
        return self.transport, config

    @model_validator(mode="after")
    def _fits_transport(self) -> TcpEdgeConfig:
        name, config = self.transport_config()
        model = _MODELS[name]
        for key in config:
            if key not in model.model_fields:
                raise PydanticCustomError(
                    "wrong_transport", '"{key}" belongs to transport = "tcp-server"', {"key": key}
                )
        if name == "tcp-client" and self.host is None:
            raise PydanticCustomError("no_host", 'transport = "tcp-client" needs a "{key}"', {"key": "host"})
        model.model_validate(config)  # its faults come out as this model's: the keys are the same
        return self
