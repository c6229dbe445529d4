"""Migrations: upwards from every version with its data, by many processes at once, never downwards."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.migrations import MIGRATIONS, migrate
from gauss.fleet.store.schema import SCHEMA
from gauss.model.errors import ConfigError

CONFIG = "VALUES ('p', 1, '{\"brokers\": \"b:1\"}', NULL)"
DATA = {
    1: (
        "INSERT INTO pipelines VALUES ('p', 'orders', '', 1, 10, 10)",
        "INSERT INTO pipeline_state VALUES ('p', 'started', 3, 20)",
        f"INSERT INTO kafka_configs {CONFIG}",
        "INSERT INTO config_versions VALUES ('p', 1, 'kafka', '{}', NULL, 'me', '', 10)",
    ),
    2: ("UPDATE leases SET worker_id = 'w', lease_until = 30, epoch = 4 WHERE slot = 0",),
    3: (
        "INSERT INTO claims VALUES ('p', 't', 0, 'id', 9, 'w', 0, 4, 2, 70, 80, 5, NULL, NULL, 7, 7, 7, 0, 40, 50)",
        "INSERT INTO dead_letters VALUES ('p', 9, 60, 't', 0, 'map', 'r', 'c', 'd', NULL, 1, 2)",
    ),
    4: (
        "INSERT INTO tokens VALUES ('t', 'ci', 'viewer', 'h', 'me', 10, NULL)",
        "INSERT INTO audit (at, who, action, pipeline_id, detail) VALUES (10, 'me', 'pipeline.start', 'p', '{}')",
    ),
    5: ("UPDATE claims SET insert_ms = 3",),
    6: (
        "INSERT INTO dead_letters SELECT pipeline_id, inc, 61, topic, partition, stage, reason, 'c', 'd', data, 1, 2,"
        " NULL, NULL FROM dead_letters",
        f"INSERT INTO pipeline_files {CONFIG}",
        "INSERT INTO workers VALUES ('w', 'h', 1, 'no-leases', '1', 1000, 10, 10, NULL, NULL)",
    ),
    7: (),
    8: (),
}
"""By version: what a store of that version may hold."""


@pytest.fixture
def database(address: str | Path) -> Database:
    return Database(address, name="store", option="--store")


@pytest.mark.parametrize("version", range(len(MIGRATIONS)))
def test_a_store_of_every_version_keeps_its_data_when_it_is_migrated(
    database: Database, address: str | Path, key_path: Path, version: int
) -> None:
    for number in range(1, version + 1):
        migrate(database, MIGRATIONS[:number])
        with database.transaction() as connection:
            for statement in DATA[number]:
                connection.execute(sa.text(statement.replace(":", "\\:")))
    database.close()
    store = FleetStore(address, key_path)
    found = store.pipelines.list()
    assert [(each.name, each.desired, each.replicas) for each in found] == [("orders", "started", 3)] * bool(version)
    if version >= 1:
        assert [each.slot for each in store.leases.vacancies()] == [0, 1, 2]
        taken = store.leases.acquire("w2", [("p", 0)], 1_000)
        assert [lease.epoch for lease in taken] == [5 if version >= 2 else 1]
    if version >= 3:
        assert [(each.next_offset, each.epoch) for each in store.claims.list("p")] == [(70, 2)]
        offsets = [each.letter.offset for each in store.letters.list("p")]
        assert offsets == ([61, 60] if version >= 6 else [60])
        assert store.letters.totals()["p"].kept == len(offsets)
    if version >= 2:
        slots = [(each.epoch, each.worker_id, each.ended_at) for each in store.takeovers.list("p", 60_000)]
        assert slots == [(5, "w2", None)]
    if version >= 5:
        assert [each.insert_ms for each in store.claims.list("p")] == [3]
    if version >= 6:
        assert [(each.id, each.instances) for each in store.workers.list()] == [("w", {})]
    if version >= 4:
        assert [each.name for each in store.tokens.list()] == ["ci"]
        assert [each.action for each in store.audit.entries()] == ["pipeline.start"]
    store.close()


def test_the_tables_are_those_that_statements_are_built_from(database: Database) -> None:
    migrate(database)
    found = sa.inspect(database.engine)
    for table in SCHEMA.sorted_tables:
        columns = {column["name"]: str(column["type"]) for column in found.get_columns(table.name)}
        key = found.get_pk_constraint(table.name)["constrained_columns"]
        assert list(columns) == [column.name for column in table.columns], table.name
        assert set(key) == {column.name for column in table.primary_key}, table.name
    database.close()


def test_processes_that_start_at_the_same_time_migrate_once(address: str | Path) -> None:
    databases = [Database(address, name="store", option="--store") for _ in range(6)]
    start = threading.Barrier(len(databases))

    def run(database: Database) -> int:
        start.wait()
        return migrate(database)

    with ThreadPoolExecutor(len(databases)) as threads:
        versions = list(threads.map(run, databases))  # raises what a thread has raised
    assert min(versions) == 0
    with databases[0].transaction() as connection:
        applied = connection.execute(sa.text("SELECT version FROM schema_version ORDER BY version")).scalars().all()
    assert applied == list(range(1, len(MIGRATIONS) + 1))
    for database in databases:
        database.close()


def test_a_store_of_a_newer_gauss_is_refused(database: Database) -> None:
    migrate(database)
    with pytest.raises(
        ConfigError,
        match=f"the store has version {len(MIGRATIONS)}, and this gauss knows versions up to {len(MIGRATIONS) - 1}",
    ):
        migrate(database, MIGRATIONS[:-1])
    database.close()


def test_a_migration_that_fails_leaves_the_version_before_it(database: Database) -> None:
    broken = type("Broken", (), {"STATEMENTS": ("CREATE TABLE half (id BIGINT)", "CREATE TABLE nonsense (")})
    with pytest.raises(Exception, match="store"):
        migrate(database, [*MIGRATIONS, broken])  # type: ignore[list-item]
    assert not sa.inspect(database.engine).has_table("half")
    assert migrate(database) == len(MIGRATIONS)
    database.close()
