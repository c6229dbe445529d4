"""A Postgres server with a table `people`, and syncs that copy it; a folder with connectors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss import registry
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.postgres.connect import Connection, connect
from gauss.config.syncs import SyncDef
from gauss.connect.sync import Sync
from helpers import people
from helpers.sync_connectors import CONNECTORS
from helpers.sync_world import World


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as made:
        yield made


@pytest.fixture
def connection(server: EmbeddedServer) -> Iterator[Connection]:
    with connect(server.endpoint, autocommit=True) as made:
        people.create(made)
        yield made


@pytest.fixture
def make(server: EmbeddedServer, tmp_path: Path) -> Any:
    """Makes a sync of `people` to the schema `landing`."""

    def run(stream: dict[str, Any], *, emit: Any = lambda _: None, **more: Any) -> Sync:
        side = {"connector": "postgres", "dsn": server.endpoint.url}
        text = {
            "name": "people",
            "source": side,
            "destination": {**side, "schema": "landing"},
            "streams": [{"name": "public.people", **stream}],
            **more,
        }
        return Sync(SyncDef.model_validate(text), tmp_path, tmp_path / ".gauss", emit)

    return run


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "sample.py").write_text(CONNECTORS)
    before = list(sys.path)
    monkeypatch.setenv(registry.PLUGIN_DIR, os.environ.get(registry.PLUGIN_DIR, ""))
    registry.look_in(tmp_path)
    sys.modules.pop("sample", None)
    yield World(tmp_path)
    sys.modules.pop("sample", None)
    sys.path[:] = before
