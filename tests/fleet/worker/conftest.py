"""A pipeline from a real topic to a real table, and workers that run it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.clients.embedded import EmbeddedServer
from gauss.fleet.fleet_store import FleetStore
from helpers.fleet import World
from helpers.kafka import SecuredBroker


@pytest.fixture
def world(kafka: SecuredBroker, clickhouse: EmbeddedServer, tmp_path: Path) -> Iterator[World]:
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "fleet.key")
    made = World(store, kafka.broker.address, clickhouse.endpoint)
    yield made
    made.stop()
    store.close()
