"""Syncs from Postgres to ClickHouse with the built-in connectors."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from gauss.clients.clickhouse.connect import connect as connect_clickhouse
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect
from gauss.config.syncs import SyncDef
from gauss.connect.embedded_sides import embedded_servers
from gauss.connect.sync import Sync, SyncResult
from gauss.model.paths import DataDir
from helpers.cdc_people import drop_replication
from helpers.waiting import wait_until

pytestmark = pytest.mark.system
PEOPLE = """
CREATE TABLE people (
    id bigint PRIMARY KEY, name text NOT NULL, born date, data jsonb, worth numeric(12, 2), tags text[], code uuid,
    seen timestamptz, at time, bits bytea, big numeric
);
INSERT INTO people SELECT n, 'person ' || n, '2000-01-01'::date + n, jsonb_build_object('n', n), n / 4.0,
    ARRAY['a', NULL], '00000000-0000-0000-0000-000000000007', '2026-01-01 12:00:00.000001+02',
    '00:00:01', '\\x6162', 0.5
FROM generate_series(1, 300) n;
INSERT INTO people (id, name) VALUES (301, 'nobody')
"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as made:
        yield made


@pytest.fixture
def connection(postgres: EmbeddedServer) -> Iterator[Connection]:
    with connect(postgres.endpoint, autocommit=True) as made:
        made.execute("DROP TABLE IF EXISTS people")
        made.execute(PEOPLE.encode())
        yield made


class Syncs:
    """Runs a sync into a database of its own."""

    def __init__(self, source: str, target: Endpoint, folder: Path) -> None:
        self.database, self._target = f"d_{uuid.uuid4().hex[:12]}", target
        self._source, self._folder = source, folder

    def make(self, stream: dict[str, Any], **more: Any) -> Sync:
        text = {
            "name": "people",
            "source": {"connector": "postgres", "dsn": self._source},
            "destination": {"connector": "clickhouse", "dsn": self._target.url, "schema": self.database},
            "streams": [{"name": "public.people", **stream}],
            **more,
        }
        return Sync(SyncDef.model_validate(text), self._folder, self._folder / ".gauss")

    def run(self, stream: dict[str, Any], **more: Any) -> SyncResult:
        result = self.make(stream, **more).run()
        assert result.status == "succeeded", result.error
        return result

    def query(self, query: str) -> list[tuple[Any, ...]]:
        with connect_clickhouse(self._target) as client:
            return [tuple(row) for row in client.query(query.format(db=self.database)).result_rows]


@pytest.fixture
def syncs(postgres: EmbeddedServer, clickhouse: Endpoint, tmp_path: Path) -> Iterator[Syncs]:
    made = Syncs(postgres.endpoint.url, clickhouse, tmp_path)
    yield made
    with connect_clickhouse(clickhouse) as client:
        client.command(f"DROP DATABASE IF EXISTS {made.database} SYNC")


@pytest.mark.usefixtures("connection")
def test_full_refresh_writes_equal_rows_with_the_closest_types(syncs: Syncs) -> None:
    for _ in range(2):
        syncs.run({})
    assert syncs.query("SELECT count(), countDistinct(id), sum(worth) FROM {db}.people") == [
        (301, 301, Decimal("11287.50"))
    ]
    assert dict(syncs.query("SELECT name, type FROM system.columns WHERE database = '{db}' AND table = 'people'")) == {
        "id": "Int64",
        "name": "String",
        "born": "Nullable(Date32)",
        "data": "Nullable(String)",
        "worth": "Nullable(Decimal(12, 2))",
        "tags": "Array(Nullable(String))",
        "code": "Nullable(UUID)",
        "seen": "Nullable(DateTime64(6, 'UTC'))",
        "at": "Nullable(Int64)",
        "bits": "Nullable(String)",
        "big": "Nullable(String)",
    }
    names = "name, born, data, worth, tags, code, seen, at, bits, big"
    assert syncs.query(f"SELECT {names} FROM {{db}}.people WHERE id IN (4, 301) ORDER BY id") == [
        (
            *("person 4", dt.date(2000, 1, 5), '{"n": 4}', Decimal("1.00"), ["a", None], uuid.UUID(int=7)),
            *(dt.datetime(2026, 1, 1, 10, 0, 0, 1), 1_000_000, "ab", "0.5"),
        ),
        ("nobody", None, None, None, [], None, None, None, None, None),
    ]


def test_incremental_stream_is_appended_once(syncs: Syncs, connection: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    checkpoint = {"checkpoint": {"rows": 100}}
    assert syncs.run(stream, **checkpoint).streams[0].read.records_read == 301
    connection.execute("INSERT INTO people (id, name) SELECT n, 'late ' || n FROM generate_series(302, 400) n")
    assert syncs.run(stream, **checkpoint).streams[0].read.records_read == 99
    assert syncs.run(stream).streams[0].read.records_read == 0
    assert syncs.query("SELECT count(), countDistinct(id), sum(id) FROM {db}.people") == [(400, 400, 80_200)]


def test_incremental_upsert_applies_the_changes_of_its_source(syncs: Syncs, connection: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id", "key": ["id"]}
    syncs.run(stream)
    connection.execute("INSERT INTO people (id, name) VALUES (302, 'late')")
    syncs.run(stream)
    assert syncs.query("SELECT count(), max(name) FROM {db}.people FINAL") == [(302, "person 99")]


def test_columns_may_go_and_come_while_a_sync_follows_its_source(syncs: Syncs, connection: Connection) -> None:
    sync, found = syncs.make({"mode": "cdc", "key": ["id"]}, follow=True), list[SyncResult]()
    running = threading.Thread(target=lambda: found.append(sync.run()), daemon=True)
    running.start()

    def landed(query: str) -> bool:
        assert not found, found[0].error
        try:
            return bool(syncs.query(f"SELECT count() FROM {{db}}.people FINAL WHERE {query}")[0][0])
        except DatabaseError:  # there is no such table or column yet
            return False

    try:
        wait_until(lambda: landed("id = 301"), 60)
        connection.execute("ALTER TABLE people DROP COLUMN worth")
        connection.execute("INSERT INTO people (id, name) VALUES (302, 'late')")
        wait_until(lambda: landed("id = 302 AND worth IS NULL"), 60)
        connection.execute("ALTER TABLE people ADD COLUMN more text")
        connection.execute("UPDATE people SET more = 'x' WHERE id = 7")
        wait_until(lambda: landed("id = 7 AND more = 'x'"), 60)
    finally:
        sync.drain()
        running.join(60)
        drop_replication(connection)
    assert found[0].status == "cancelled", found[0].error
    assert syncs.query("SELECT count(), countIf(worth IS NOT NULL) FROM {db}.people FINAL") == [(302, 299)]


def test_new_column_is_shown_by_a_dry_run_before_it_is_added(syncs: Syncs, connection: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    [before] = syncs.make(stream).dry_run()
    assert [each.partition("\n")[0].split(" ")[:2] for each in before.statements] == [
        ["CREATE", "DATABASE"],
        ["CREATE", "TABLE"],
    ]
    syncs.run(stream)
    connection.execute("ALTER TABLE people ADD COLUMN mail text")
    connection.execute("INSERT INTO people (id, name, mail) VALUES (2000, 'x', 'x@y')")
    [change] = syncs.make(stream).dry_run()
    assert [str(each) for each in change.changes] == ["mail: added as string"]
    syncs.run(stream)
    assert syncs.query("SELECT mail FROM {db}.people WHERE id = 2000") == [("x@y",)]


def test_sync_with_a_deleted_state_file_resumes_at_the_watermark_of_the_server(
    syncs: Syncs, connection: Connection, tmp_path: Path
) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    syncs.run(stream)
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        file.unlink()
    connection.execute("INSERT INTO people (id, name) VALUES (302, 'late')")
    assert syncs.run(stream).streams[0].read.records_read == 1
    assert syncs.query("SELECT count(), countDistinct(id) FROM {db}.people") == [(302, 302)]


@pytest.mark.usefixtures("connection")
def test_destination_without_an_address_uses_the_embedded_server(postgres: EmbeddedServer, tmp_path: Path) -> None:
    given = SyncDef.model_validate(
        {
            "name": "people",
            "source": {"connector": "postgres", "dsn": postgres.endpoint.url},
            "destination": {"connector": "clickhouse"},
            "streams": [{"name": "public.people"}],
        }
    )
    with embedded_servers(given, DataDir(tmp_path / ".gauss")) as found:
        sync = Sync(found, tmp_path, tmp_path / ".gauss")
        assert sync.run().status == "succeeded"
        assert sync.run().status == "succeeded"  # replaced in the database `default`, which has no UUIDs of tables
        server = ensure("clickhouse", DataDir(tmp_path / ".gauss").server("clickhouse"))
        with connect_clickhouse(server.endpoint) as client:
            assert client.query("SELECT count() FROM people").result_rows == [(301,)]
            names = client.query("SELECT name FROM system.tables WHERE database = 'default' ORDER BY 1").result_rows
            assert names == [("_gauss_watermarks",), ("people",)]
