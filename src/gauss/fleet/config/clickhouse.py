"""The ClickHouse part of a pipeline's config."""

from __future__ import annotations

from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, ValidationError, model_validator

from gauss.clients.clickhouse.connect import ServerAddress
from gauss.clients.clickhouse.server import ClickHouseServer, address_of
from gauss.fleet.config.model import ConfigModel, faults

Name = Annotated[str, Field(max_length=200)]


class ClickHouseConfig(ConfigModel):
    """Where rows go to."""

    dsn: Annotated[str, Field(min_length=1, max_length=4_096, repr=False)]
    """The server, as `http://user:password@host:8123` (`https` for TLS). The password is never returned."""
    database: Name = "default"
    """The database."""
    table: Name = ""
    """The table. Default: the name of the topic."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 50_000
    """Number of waiting records of a partition at which they are inserted."""
    flush_interval_ms: Annotated[int, Field(ge=10, le=60_000)] = 1_000
    """Longest time that a record waits before it is inserted."""
    insert_rate_limit: Annotated[int, Field(ge=0, le=10**9)] = 0
    """Rows per second of the whole pipeline, all replicas together; 0 for no limit."""
    create_table_if_missing: bool = True
    """Whether a missing table is made from the mapping."""

    @model_validator(mode="after")
    def _connects(self) -> Self:
        try:
            self.address()
        except ValidationError as error:
            raise ValueError(faults(error)) from None
        return self

    def address(self) -> ServerAddress:
        return address_of(ClickHouseServer(dsn=self.dsn))


def split_dsn(dsn: str) -> tuple[str, str]:
    """A DSN without its password, and the password as it is written there. Of a text that is none, nothing is taken for
    public."""
    try:
        url = urlsplit(dsn)
        name, separator, password = url.netloc.rpartition("@")[0].partition(":")
        place = url.netloc.rpartition("@")[2]
    except ValueError:
        return "", dsn
    if not separator:
        return dsn, ""
    return urlunsplit(url._replace(netloc=f"{name}@{place}")), password


def join_dsn(dsn: str, password: str) -> str:
    """The DSN with a password."""
    url = urlsplit(dsn)
    name, _, place = url.netloc.rpartition("@")
    return urlunsplit(url._replace(netloc=f"{name.partition(':')[0]}:{password}@{place}"))


def masked_dsn(dsn: str, mask: str) -> str:
    """The DSN as it is shown, if it has a password."""
    return join_dsn(dsn, quote(mask, safe="*"))


def same_server(one: Any, other: Any) -> bool:
    """Whether two DSNs without passwords name one server and user."""
    first, second = urlsplit(str(one)), urlsplit(str(other))
    return (first.scheme, first.netloc) == (second.scheme, second.netloc)
