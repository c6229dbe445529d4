"""The keys of a config that name a ClickHouse server, or the embedded one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import PluginConfig
from gauss.model.errors import Unavailable

if TYPE_CHECKING:
    from gauss.clients.clickhouse.connect import ServerAddress

PORT, TLS_PORT = 8123, 8443
DATABASE = "default"
UNREADABLE = (
    "the dsn can't be read: expected http://user:password@host:8123/database, or https:// with port 8443;"
    " percent-encode what is not a letter or digit in user and password, or give host, user and password instead"
)


class ClickHouseServer(PluginConfig):
    """The keys that name a server; without any of them, the embedded ClickHouse."""

    dsn: str | None = None
    """A server as `http://user:password@host:8123/database` (`https` for TLS); left out, and no `host`: the embedded
    ClickHouse."""
    host: str | None = None
    """A server's host, instead of `dsn`."""
    port: int = 0
    """With `host`; 0 for 8123, or 8443 with `secure`."""
    user: str = "default"
    """With `host`."""
    password: str = ""
    """With `host`; write it as `${NAME}` or `${file:path}`."""
    secure: bool = False
    """With `host`: TLS."""
    verify: bool = True
    """With TLS: whether the server's certificate must be valid."""
    ca_file: Path | None = None
    """With TLS: the authority that signed the server's certificate, as a PEM file. Default: those of the system."""

    def encryption_hint(self) -> str:
        """What to add to the config if it does not say whether the connection is encrypted."""
        if self.dsn is not None or "secure" in self.model_fields_set:
            return ""
        return "set secure = true (port 8443), or secure = false if the network can be trusted"

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        if self.dsn is not None and self.host is not None:
            raise PydanticCustomError("clickhouse", "give dsn or host, not both", {"key": "host"})
        try:
            server_of(self)
        except ValueError:  # its text contains a part of the DSN
            raise PydanticCustomError("clickhouse", UNREADABLE, {"key": "dsn"}) from None
        return self


def server_of(config: ClickHouseServer) -> tuple[str, int] | None:
    """Host and port of the server; None for the embedded ClickHouse. Raises ValueError."""
    if config.dsn is not None:
        url = _parts(config.dsn)
        return url.hostname or "", url.port or (TLS_PORT if url.scheme == "https" else PORT)
    if config.host is not None:
        return config.host, config.port or (TLS_PORT if config.secure else PORT)
    return None


def _parts(dsn: str) -> SplitResult:
    url = urlsplit(dsn)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or "@" in url.path:
        raise ValueError("not an HTTP address")
    if "@" in url.netloc.rpartition("@")[0]:
        raise ValueError("a password that is not percent-encoded")
    return url


def database_of(config: ClickHouseServer) -> str:
    """The database that the address names."""
    found = unquote(_parts(config.dsn).path.strip("/")) if config.dsn is not None else ""
    return found or DATABASE


def address_of(config: ClickHouseServer) -> ServerAddress:
    """The address for `connect`; raises Unavailable if the embedded ClickHouse was not started."""
    from gauss.clients.clickhouse.connect import ServerAddress

    server = server_of(config)
    if server is None:
        raise Unavailable("the embedded ClickHouse is not up", hint="its log: clickhouse.out.log")
    host, port = server
    user, password, secure = config.user, config.password, config.secure
    if config.dsn is not None:
        url = _parts(config.dsn)
        user, password = unquote(url.username or "default"), unquote(url.password or "")
        secure = url.scheme == "https"
    return ServerAddress(
        host,
        port,
        database_of(config),
        user,
        password,
        secure=secure,
        verify=config.verify,
        ca_cert=str(config.ca_file or ""),
    )
