"""Connects to the ClickHouse of a topic: the configured server, else the embedded one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gauss.clients.clickhouse.connect import ServerAddress, connect
from gauss.clients.endpoint import read_endpoint
from gauss.contracts.table import TablePlace
from gauss.model.errors import Unavailable
from gauss.plugins.storages.clickhouse.spec import ClickHouseConfig

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


def client_of(config: ClickHouseConfig, place: TablePlace) -> Client:
    """A client; raises Unavailable while the server is down."""
    if config.host is not None:
        names = ("port", "database", "user", "password", "secure", "verify")
        given = {name: getattr(config, name) for name in names}
        address = ServerAddress(config.host, **given, ca_cert=str(config.ca_file or ""))
        return connect(replace(address, answer_seconds=place.answer_seconds))
    endpoint = read_endpoint(place.directory)
    if endpoint is None:
        raise Unavailable("the embedded ClickHouse is not up", hint=f"its log: {place.directory.name}.out.log")
    return connect(endpoint)
