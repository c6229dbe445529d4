"""Which Postgres a config means: the embedded one, or a server by DSN or host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import urlsplit

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import PluginConfig
from gauss.model.errors import Unavailable

if TYPE_CHECKING:
    from gauss.clients.endpoint import Endpoint

PORT = 5432


class PostgresServer(PluginConfig):
    """The keys that name a server; none of them: the embedded Postgres."""

    dsn: str | None = None
    """A server as `postgresql://user:password@host/database`; left out, and no `host`: the embedded Postgres."""
    host: str | None = None
    """A server's host, instead of `dsn`."""
    port: int = PORT
    """With `host`."""
    database: str = "postgres"
    """With `host`."""
    user: str = "postgres"
    """With `host`."""
    password: str = ""
    """With `host`; write it as `${NAME}` or `${file:path}`."""
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] | None = None
    """With `host`; left out: `verify-full` with a `ca_file`, else `prefer`. With `dsn` write it there."""
    ca_file: Path | None = None
    """With `host`: the authority that signed the server's certificate, as a PEM file."""

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        if self.dsn is not None and self.host is not None:
            raise PydanticCustomError("postgres", "give dsn or host, not both", {"key": "host"})
        return self


def server_of(config: PostgresServer) -> tuple[str, int] | None:
    """Host and port (no host: it can't be told); None: the embedded Postgres."""
    if config.dsn is None:
        return None if config.host is None else (config.host, config.port)
    if "://" in config.dsn:
        url = urlsplit(config.dsn)
        return url.hostname or "", url.port or PORT
    words = dict(re.findall(r"(host|port)\s*=\s*'?([^\s']+)", config.dsn))
    return words.get("host", ""), int(words.get("port", PORT))


def address_of(config: PostgresServer, embedded: Path | None) -> str | Endpoint:
    """What `connect` takes; `embedded` is the directory of the embedded server."""
    if config.dsn is not None:
        return config.dsn
    if config.host is not None:
        import psycopg.conninfo

        return psycopg.conninfo.make_conninfo(
            host=config.host,
            port=config.port,
            dbname=config.database,
            user=config.user,
            password=config.password or None,
            sslmode=config.sslmode or ("verify-full" if config.ca_file else "prefer"),
            sslrootcert=str(config.ca_file) if config.ca_file else None,
        )
    from gauss.clients.endpoint import read_endpoint

    endpoint = read_endpoint(embedded) if embedded is not None else None
    if endpoint is None:
        raise Unavailable("the embedded Postgres is not up", hint="its log: postgres.out.log")
    return endpoint
