from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.clients.embedded import ensure
from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The embedded Postgres."""
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as server:
        yield server.endpoint


@pytest.fixture
def connection(postgres: Endpoint) -> Iterator[Connection]:
    with connect(postgres, autocommit=True) as found:
        yield found


@pytest.fixture
def empty_dir(tmp_path: Path) -> Path:
    """A directory without an embedded server."""
    return tmp_path / "postgres"
