"""Clients of ClickHouse, the embedded one or any other, over HTTP."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import clickhouse_connect

from gauss.clients.clickhouse.errors import sorted_errors
from gauss.clients.endpoint import Endpoint

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

# The driver logs each exception that it raises, and Gauss reports those itself.
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class ServerAddress:
    """A server as a config names it."""

    host: str
    port: int = 0
    """0: 8123, or 8443 with TLS."""
    database: str = "default"
    user: str = "default"
    password: str = ""
    secure: bool = False
    verify: bool = True
    ca_cert: str = ""
    connect_seconds: int = 10
    answer_seconds: int = 300

    def __repr__(self) -> str:
        return f"Address({self.user}@{self.host}:{self.port}/{self.database})"

    @classmethod
    def of(cls, endpoint: Endpoint) -> ServerAddress:
        return cls(endpoint.host, endpoint.port, endpoint.database, endpoint.user, endpoint.password)


def connect(address: ServerAddress | Endpoint) -> Client:
    """A client for one thread at a time. It has no session, so that any number of clients can run concurrently."""
    if isinstance(address, Endpoint):
        address = ServerAddress.of(address)
    with sorted_errors():
        return clickhouse_connect.get_client(
            host=address.host,
            port=address.port,
            database=address.database,
            username=address.user,
            password=address.password,
            secure=address.secure,
            verify=address.verify,
            ca_cert=address.ca_cert or None,
            connect_timeout=address.connect_seconds,
            send_receive_timeout=address.answer_seconds,
            autogenerate_session_id=False,
            # On loopback compression costs more than it saves.
            compress=False if address.host in ("127.0.0.1", "localhost", "::1") else "lz4",
        )
