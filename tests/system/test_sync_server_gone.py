"""A server that is gone in the middle of a sync: the sync waits for it, or fails so that the next run completes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.postgres.connect import connect
from gauss.connect.conformance import collector
from helpers.gated_sync import GATE, ROWS, STREAM, GatedSync, SyncCommand
from helpers.killable_server import KillableServer
from helpers.landed_rows import landed_ids
from helpers.waiting import stays

pytestmark = pytest.mark.fault
ALL = list(range(1, ROWS + 1))
MANY = 4_000
"""Rows of 4 KB: more than sockets hold of what a killed server has sent."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableServer]:
    with KillableServer("postgres", tmp_path_factory.mktemp("postgres")) as made:
        yield made


def interrupted(sync: GatedSync, server: KillableServer) -> None:
    """A run whose server is killed in its middle."""
    sync.start()
    sync.wait_for_gate()
    server.kill()
    sync.open_gate()


def comes_back(folder: Path, server: KillableServer, **destination: str) -> None:
    sync = GatedSync(folder, {"dsn": server.endpoint.url, **destination}, attempts=20)
    interrupted(sync, server)
    sync.wait_for_retry()
    server.start()
    assert sync.end() == 0, sync.events


def test_a_postgres_that_comes_back_gets_every_row_once(tmp_path: Path, server: KillableServer) -> None:
    comes_back(tmp_path, server, connector="postgres", schema="returns")
    assert landed_ids(server.endpoint.url, f"returns.{STREAM}") == ALL


def test_a_clickhouse_that_comes_back_gets_every_row_once(tmp_path: Path) -> None:
    with KillableServer("clickhouse", tmp_path / "server") as server:
        comes_back(tmp_path / "sync", server, connector="clickhouse")
        assert landed_ids(server.endpoint.url, STREAM) == ALL


def test_a_server_that_stays_away_fails_the_run_and_the_next_one_completes_it(
    tmp_path: Path, server: KillableServer
) -> None:
    url, table = server.endpoint.url, f"absent.{STREAM}"
    sync = GatedSync(tmp_path, {"connector": "postgres", "dsn": url, "schema": "absent"}, attempts=2)
    interrupted(sync, server)
    assert sync.end() == 3, sync.events
    assert sync.error["category"] == "transient_network" and sync.error["retryable"]
    assert server.endpoint.password not in str(sync.events) + sync.said
    server.start()
    assert landed_ids(url, table) == ALL[:GATE]
    assert sync.run() == 0, sync.events
    assert landed_ids(url, table) == ALL


def test_a_frozen_server_is_waited_for(tmp_path: Path, server: KillableServer) -> None:
    url = server.endpoint.url
    sync = GatedSync(tmp_path, {"connector": "postgres", "dsn": url, "schema": "frozen"})
    sync.start()
    sync.wait_for_gate()
    server.freeze()
    sync.open_gate()
    stays(lambda: sync.runs, 1.0)
    server.thaw()
    assert sync.end() == 0, sync.events
    assert landed_ids(url, f"frozen.{STREAM}") == ALL


def slow_copy(folder: Path, url: str, **sync: Any) -> SyncCommand:
    """A sync of a Postgres table to a destination that takes its time."""
    with connect(url, autocommit=True) as connection:
        statement = f"CREATE TABLE {STREAM} AS SELECT id, repeat('x', 4000) AS text FROM generate_series(1, {MANY}) id"
        connection.execute(f"{statement}; ALTER TABLE {STREAM} ADD PRIMARY KEY (id)".encode())
    given: dict[str, Any] = {
        "source": {"connector": "postgres", "dsn": url},
        "destination": {"connector": collector.NAME, "folder": str(folder / "out"), "pause_s": 0.1},
        "streams": [{"name": f"public.{STREAM}", "mode": "incremental", "cursor": "id", "write": "append"}],
        "limits": {"max_batch_bytes": 1 << 20, "max_inflight_batches": 1},
        "checkpoint": {"rows": 500},
        "max_attempts": 20,
        **sync,
    }
    return SyncCommand(folder, **given)


def collected_ids(folder: Path) -> list[int]:
    found: list[int] = collector.collected(folder / "out", f"public.{STREAM}", full=False).column("id").to_pylist()
    return found


def test_a_source_and_a_state_that_come_back_are_read_once(tmp_path: Path, server: KillableServer) -> None:
    url = server.endpoint.url
    sync = slow_copy(tmp_path, url, state=url)
    sync.start()
    sync.wait_for_checkpoint(2)
    server.kill()
    sync.wait_for_retry()
    assert 0 < len(collected_ids(tmp_path)) < MANY
    server.start()
    assert sync.end() == 0, (sync.events, sync.said)
    assert collected_ids(tmp_path) == list(range(1, MANY + 1)) and "Traceback" not in sync.said
