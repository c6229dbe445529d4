"""Publishing of staging tables: every row is published once, whatever was published before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gauss.clients.clickhouse import publish, stages
from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.stages import TargetTable
from gauss.clients.clickhouse.sync_log import Entry, EntryKind, Publishing, SyncLog, SyncState
from gauss.clients.endpoint import Endpoint
from helpers.waiting import wait_until
from plugins.connectors.clickhouse.writing import DestinationFixture

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

BLOCKS = [[1, 2], [3, 3], [3, 3], [4]]
ALL = sorted((value,) for block in BLOCKS for value in block)


@pytest.fixture
def client(clickhouse: Endpoint) -> Iterator[Client]:
    with connect(clickhouse) as made:
        yield made


@pytest.fixture(params=["", "PARTITION BY a % 2"], ids=["one", "partitioned"])
def target(request: pytest.FixtureRequest, client: Client, destination: DestinationFixture) -> TargetTable:
    """A table with a staging table of four blocks, two of which are equal."""
    made = TargetTable(destination.database, "t", ["a"])
    client.command(f"CREATE DATABASE {made.database}")
    client.command(
        f"CREATE TABLE {made.sql} (a Int64) ENGINE = MergeTree {request.param} ORDER BY a"
        " SETTINGS enable_block_number_column = 1"
    )
    stages.create_stage(client, made, "s")
    for place, block in enumerate(BLOCKS):
        values = ", ".join(f"({value})" for value in block)
        token = {"insert_deduplication_token": str(place)}
        client.command(f"INSERT INTO {made.database}.s VALUES {values}", settings=token)
    return made


def planned(client: Client, target: TargetTable) -> Publishing:
    found = publish.plan_publishing(client, target, ["s"], len(ALL))
    return Publishing(**{**vars(found), "chunk_rows": 2})


def contents(client: Client, target: TargetTable) -> list[tuple[int]]:
    return [(value,) for (value,) in client.query(f"SELECT a FROM {target.sql} ORDER BY a").result_rows]


def test_stage_is_published_in_chunks_and_dropped(client: Client, target: TargetTable) -> None:
    publish.publish(client, target, planned(client, target))
    assert contents(client, target) == ALL
    assert stages.tables_like(client, target.database, "s") == []
    publish.settle(client, target, planned(client, target))  # there is nothing left to do
    assert contents(client, target) == ALL


def test_stage_above_the_drop_limit_is_dropped(client: Client, target: TargetTable) -> None:
    """The server's limit, 50 GB by default, protects tables of people."""
    client.set_client_setting("max_table_size_to_drop", 1)
    publish.publish(client, target, planned(client, target))
    assert contents(client, target) == ALL and stages.tables_like(client, target.database, "s") == []


@pytest.mark.parametrize("there", [(), (0,), (1,), (0, 2), (0, 1, 2, 3, 4, 5)], ids=str)
def test_only_missing_chunks_are_published(client: Client, target: TargetTable, there: tuple[int, ...]) -> None:
    client.command(f"INSERT INTO {target.sql} VALUES (3), (3)")  # before, and equal to a chunk
    plan = planned(client, target)
    for place, chunk in enumerate(publish._chunks(client, target, "s", plan.chunk_rows, hashed=False)):
        if place in there:
            publish._insert(client, target, chunk)
    client.command(f"INSERT INTO {target.sql} VALUES (50)")  # somebody else's
    client.command(f"OPTIMIZE TABLE {target.sql} FINAL")
    client.command(f"ALTER TABLE {target.sql} ADD COLUMN later Nullable(String)")
    publish.settle(client, target, plan)
    assert contents(client, target) == sorted([*ALL, (3,), (3,), (50,)])
    assert stages.tables_like(client, target.database, "s") == []


def test_table_with_10_000_partitions_is_settled(client: Client, target: TargetTable) -> None:
    plan = planned(client, target)
    many = {f"{number:032x}": number for number in range(10_000)}
    publish.settle(client, target, Publishing(**{**vars(plan), "floors": {**plan.floors, **many}}))
    assert contents(client, target) == ALL


def test_rows_are_published_to_a_recreated_table(client: Client, target: TargetTable) -> None:
    plan = planned(client, target)
    for chunk in publish._chunks(client, target, "s", plan.chunk_rows, hashed=False):
        publish._insert(client, target, chunk)
    client.command(f"CREATE OR REPLACE TABLE {target.sql} AS {target.sql}")
    publish.settle(client, target, plan)
    assert contents(client, target) == ALL


def test_settle_waits_for_the_running_statements_of_a_dead_writer(
    client: Client, target: TargetTable, clickhouse: Endpoint
) -> None:
    """An insert that is under way when its writer dies comes to its end on the server, and is not repeated."""
    plan = planned(client, target)
    slow = (
        f"INSERT INTO {target.sql} SELECT a FROM {target.database}.s WHERE sleepEachRow(0.1) = 0"
        " SETTINGS max_block_size = 1, min_insert_block_size_rows = 16777216, max_threads = 1"
    )

    def write() -> None:
        with connect(clickhouse) as other:
            other.command(slow)

    plan = Publishing(**{**vars(plan), "chunk_rows": 1_000})
    writer = threading.Thread(target=write)
    writer.start()
    running = "SELECT count() FROM system.processes WHERE startsWith(query, 'INSERT INTO')"
    wait_until(lambda: client.query(running).result_rows[0][0])
    publish.settle(client, target, plan)
    writer.join()
    assert contents(client, target) == ALL


def test_replayed_log_counts_one_of_two_attempts_and_no_fenced_run(
    client: Client, destination: DestinationFixture
) -> None:
    client.command(f"CREATE DATABASE {destination.database}")
    log, other = (SyncLog(destination.database, "sync", name) for name in ("it's \\ a `stream`", "other"))
    log.create(client)
    state, behind = SyncState(), SyncState()
    assert log.append(client, Entry(EntryKind.CLAIM, 1), state)
    assert log.append(client, Entry(EntryKind.COMMIT, 1, "p", 1, "1"), state)
    assert not log.append(client, Entry(EntryKind.COMMIT, 1, "p", 1, "2"), behind)
    head = state.heads["p"]
    assert log.append(client, Entry(EntryKind.COMMIT, 1, "p", 2, "3", follows=head.block), state)
    assert log.append(client, Entry(EntryKind.CLAIM, 2), behind)
    late = Entry(EntryKind.COMMIT, 1, "p", 3, "4", follows=state.heads["p"].block)
    assert not log.append(client, late, state) and state.generation == 2
    log.compact(client, state)
    assert [(each.id, each.cursor) for each in log.replay(client).heads.values()] == [(2, "3")]
    follows = log.replay(client).heads["p"].block
    assert log.append(client, Entry(EntryKind.COMMIT, 2, "p", 1, "5", follows=follows), state)
    assert other.replay(client).heads == {}
