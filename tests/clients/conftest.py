"""The real embedded servers, one of each per test session."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from gauss.clients.embedded import ensure
from gauss.clients.endpoint import Endpoint

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

SERVER_URL = "GAUSS_TEST_CLICKHOUSE_URL"
"""`http://user:password@host:8123/database`: another server on which to run the same tests."""


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The embedded ClickHouse."""
    with ensure("clickhouse", tmp_path_factory.mktemp("clickhouse")) as server:
        yield server.endpoint


@pytest.fixture(scope="session")
def any_clickhouse(request: pytest.FixtureRequest) -> Endpoint:
    """The server that the environment names, otherwise the embedded one."""
    if url := os.environ.get(SERVER_URL):
        found = urlsplit(url)
        return Endpoint(
            found.scheme,
            found.hostname or "127.0.0.1",
            found.port or 8123,
            unquote(found.username or "default"),
            unquote(found.password or ""),
            found.path.strip("/") or "default",
        )
    endpoint: Endpoint = request.getfixturevalue("clickhouse")
    return endpoint


@pytest.fixture(scope="session")
def client(any_clickhouse: Endpoint) -> Iterator[Client]:
    from gauss.clients.clickhouse.connect import connect

    with connect(any_clickhouse) as found:
        yield found


@pytest.fixture
def table() -> str:
    """A table name that no other test uses."""
    return f"t_{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The embedded Postgres."""
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as server:
        yield server.endpoint


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A separate directory for tests that start and kill a server."""
    return tmp_path / "server"
