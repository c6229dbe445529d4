"""The keys of a config that name a Postgres server, or the embedded one."""

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
UNREADABLE = (
    "the dsn can't be read: expected postgresql://user:password@host:port/database; percent-encode what is not a "
    "letter or digit in user and password, or give host, user and password instead"
)


class PostgresServer(PluginConfig):
    """The keys that name a server; without any of them, the embedded Postgres."""

    dsn: str | None = None
    """A server as `postgresql://user:password@host/database`; left out, and no `host`: the embedded Postgres."""
    host: str | None = None
    """A server's host, instead of `dsn`."""
    port: int = PORT
    """With `host`."""
    database: str = "postgres"
    """With `host`. Alone: the name of a `[[databases]]` entry, which is then the server."""
    user: str = "postgres"
    """With `host`."""
    password: str = ""
    """With `host`; write it as `${NAME}` or `${file:path}`."""
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] | None = None
    """With `host`; left out: `verify-full` with a `ca_file`, else `prefer`. With `dsn` write it there."""
    ca_file: Path | None = None
    """With `host`: the authority that signed the server's certificate, as a PEM file."""

    @property
    def prepared(self) -> str | None:
        """The `[[databases]]` entry that is the server, until the config has its address."""
        alone = self.dsn is None and self.host is None and "database" in self.model_fields_set
        return self.database if alone else None

    def encryption_hint(self) -> str:
        """What to add to the config if it does not say whether the connection is encrypted."""
        if self.prepared is not None:
            return ""
        if self.dsn is not None:
            return "" if "sslmode" in self.dsn else "add sslmode=verify-full (or another mode of Postgres) to the dsn"
        if self.sslmode is not None or self.ca_file is not None:
            return ""
        return 'set sslmode = "verify-full" with a ca_file, or another mode of Postgres if the network can be trusted'

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        if self.dsn is not None and self.host is not None:
            raise PydanticCustomError("postgres", "give dsn or host, not both", {"key": "host"})
        try:
            server_of(self)
        except ValueError:  # its text contains a part of the DSN
            raise PydanticCustomError("postgres", UNREADABLE, {"key": "dsn"}) from None
        return self


def server_of(config: PostgresServer) -> tuple[str, int] | None:
    """Host and port of the first server (empty host: unknown); None for the embedded Postgres. Raises ValueError."""
    if config.prepared is not None:
        return "", PORT
    if config.dsn is None:
        return None if config.host is None else (config.host, config.port)
    if "://" in config.dsn:
        url = urlsplit(config.dsn)
        user, at, hosts = url.netloc.rpartition("@")
        if "@" in user or url.fragment or (not at and "@" in config.dsn):
            raise ValueError("a password that is not percent-encoded")
        first = urlsplit(f"//{hosts.split(',')[0]}")
        return first.hostname or "", first.port or PORT
    if "=" not in config.dsn:
        raise ValueError("neither a URL nor key=value")
    words = dict(re.findall(r"\b(host|port)\s*=\s*'?([^\s',]+)", config.dsn))
    return words.get("host", ""), int(words.get("port", PORT))


def address_of(config: PostgresServer, embedded: Path | None) -> str | Endpoint:
    """The address for `connect`; `embedded` is the directory of the embedded server."""
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
    if config.prepared is not None:
        raise Unavailable(
            f'the database "{config.prepared}" is not up', hint="gauss run and gauss sync prepare and start it"
        )
    from gauss.clients.endpoint import read_endpoint

    endpoint = read_endpoint(embedded) if embedded is not None else None
    if endpoint is None:
        raise Unavailable("the embedded Postgres is not up", hint="its log: postgres.out.log")
    return endpoint
