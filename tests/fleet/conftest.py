"""Stores in SQLite and in Postgres, each in a database of its own, and a ClickHouse."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.fleet.fleet_store import FleetStore

MakeStore = Callable[[], FleetStore]


@pytest.fixture(scope="session")
def fleet_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    made = ensure("postgres", tmp_path_factory.mktemp("fleet") / "postgres")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    made = ensure("clickhouse", tmp_path_factory.mktemp("fleet") / "clickhouse")
    yield made
    made.stop()


@pytest.fixture
def postgres_url(fleet_postgres: EmbeddedServer) -> str:
    """A new database."""
    name, url = f"fleet_{uuid.uuid4().hex}", fleet_postgres.endpoint.url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    return f"{url.rpartition('/')[0]}/{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.system)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """An empty store."""
    if request.param == "sqlite":
        return tmp_path / "store" / "fleet.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "fleet.key"


@pytest.fixture
def opened(address: str | Path, key_path: Path) -> Iterator[MakeStore]:
    """Opens the store once more, as another process would."""
    made: list[FleetStore] = []

    def make() -> FleetStore:
        made.append(FleetStore(address, key_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def store(opened: MakeStore) -> FleetStore:
    return opened()
