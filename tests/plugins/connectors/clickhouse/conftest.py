"""An embedded ClickHouse, and destinations that write to a database of their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from gauss.clients.embedded import ensure
from gauss.clients.endpoint import Endpoint
from plugins.connectors.clickhouse.writing import DestinationFixture


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The embedded ClickHouse."""
    with ensure("clickhouse", tmp_path_factory.mktemp("clickhouse")) as server:
        yield server.endpoint


@pytest.fixture
def destination(clickhouse: Endpoint) -> Iterator[DestinationFixture]:
    made = DestinationFixture(clickhouse.url, f"d_{uuid.uuid4().hex[:12]}")
    yield made
    made.close()
    made.run_sql(f"DROP DATABASE IF EXISTS {made.database} SYNC")
