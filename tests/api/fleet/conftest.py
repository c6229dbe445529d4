"""The API of a fleet over an empty store, with a token of each role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gauss.api.fleet.app import create_fleet_app
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role
from gauss.http.server import ApiServer, listen, url_of


@dataclass
class Fleet:
    """A served API."""

    url: str
    store: FleetStore
    tokens: dict[Role, str]

    def client(self, role: Role = Role.ADMIN) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "keys" / "fleet.key")
    tokens = {role: store.tokens.create(role.title, role, "test")[1] for role in Role}
    server = ApiServer(listen("127.0.0.1", 0), lambda: create_fleet_app(store))
    server.start()
    yield Fleet(url_of(server.listener), store, tokens)
    server.stop()
    store.close()


@pytest.fixture
def api(fleet: Fleet) -> Iterator[httpx.Client]:
    """A client with the role of an admin."""
    with fleet.client() as client:
        yield client


@pytest.fixture
def pipeline(api: httpx.Client) -> str:
    """The path of a new pipeline."""
    made = api.post("/api/pipelines", json={"name": "orders"})
    return f"/api/pipelines/{made.json()['id']}"


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A ClickHouse for all tests of checks."""
    made = ensure("clickhouse", tmp_path_factory.mktemp("api") / "clickhouse")
    yield made
    made.stop()


def dsn_of(clickhouse: EmbeddedServer) -> str:
    endpoint = clickhouse.endpoint
    return f"http://{endpoint.user}:{endpoint.password}@{endpoint.host}:{endpoint.port}"
