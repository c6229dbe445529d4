"""The routes of database states over a real engine, and a token of each role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gauss.api.fleet.app import create_fleet_app
from gauss.clients.dbstates.client import DatabaseStates
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role
from gauss.http.server import ApiServer, listen, url_of
from helpers.dbstates import Prepared, engine, prepare, write_scripts


@dataclass
class Served:
    """A server with the database states of its data directory."""

    url: str
    data_dir: Path
    tokens: dict[Role, str]

    def client(self, role: Role = Role.OPERATOR) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        return httpx.Client(base_url=f"{self.url}/api", headers=headers, timeout=60)


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    store = FleetStore(folder / "fleet.db", folder / "keys" / "fleet.key")
    tokens = {role: store.tokens.create(role.title, role, "test")[1] for role in Role}
    data_dir = folder / "data"
    server = ApiServer(listen("127.0.0.1", 0), lambda: create_fleet_app(store, data_dir=data_dir))
    server.start()
    yield Served(url_of(server.listener), data_dir, tokens)
    server.stop()
    store.close()


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("databases")) as found, engine(found.data_dir):
        yield found


@pytest.fixture(scope="module")
def states(databases: Served) -> Iterator[DatabaseStates]:
    """The engine itself."""
    with engine(databases.data_dir) as found:
        yield found


@pytest.fixture
def api(databases: Served) -> Iterator[httpx.Client]:
    with databases.client() as client:
        yield client


@pytest.fixture
def viewer(databases: Served) -> Iterator[httpx.Client]:
    with databases.client(Role.VIEWER) as client:
        yield client


@pytest.fixture(scope="module")
def people(states: DatabaseStates, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Prepared]:
    """Prepares scripts in a folder that stays."""
    folder = write_scripts(tmp_path_factory.getbasetemp() / "people")

    def run(*args: str) -> Prepared:
        return prepare(states, folder, *args)

    return run


@pytest.fixture(scope="module")
def made(people: Callable[..., Prepared]) -> Prepared:
    """One that tests only look at."""
    return people()
