"""Postgres → the embedded ClickHouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.connect import peers
from bench.connect.world import World, run_child

from gauss import registry
from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.contracts.connector.spec import DestinationSpec
from gauss.model.errors import PluginError

DLT_TABLE = "default.landing___people"


@dataclass
class ToClickHouse:
    world: World
    server: EmbeddedServer

    def gauss(self) -> float:
        """Seconds of a sync."""
        self._execute("DROP DATABASE IF EXISTS landing")
        target = {"connector": "clickhouse", "dsn": self.server.endpoint.url, "schema": "landing"}
        syncs = {"warm": self.world.sync("warm", destination=target), "sync": self.world.sync(destination=target)}
        seconds = run_child(syncs).seconds
        assert self._count("landing.people") == self.world.rows
        return seconds

    def dlt(self, backend: str) -> float:
        """Seconds of dlt; raises Absent."""
        with connect(self.server.endpoint) as client:
            tables = client.query("SELECT name FROM system.tables WHERE database = 'default'").result_rows
        self._execute(*(f"DROP TABLE default.`{name}`" for (name,) in tables))
        seconds = peers.dlt_clickhouse(self.world, self.server.endpoint, backend)
        if (found := self._count(DLT_TABLE)) != self.world.rows:
            raise peers.Absent(f"landed {found:,} of {self.world.rows:,} rows")
        return seconds

    def _execute(self, *statements: str) -> None:
        with connect(self.server.endpoint) as client:
            for statement in statements:
                client.command(statement)

    def _count(self, table: str) -> int:
        with connect(self.server.endpoint) as client:
            return int(client.query(f"SELECT count() FROM {table}").result_rows[0][0])


@contextmanager
def to_clickhouse(world: World) -> Iterator[ToClickHouse | None]:
    """None if there is no such destination."""
    try:
        registry.spec(DestinationSpec, "clickhouse")
    except PluginError:
        yield None
        return
    with ensure("clickhouse", world.root / "clickhouse") as server:
        yield ToClickHouse(world, server)
