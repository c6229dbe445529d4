"""Change data capture from Postgres to Postgres: the snapshot, changes, and follow syncs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gauss.clients.embedded import EmbeddedServer
from gauss.clients.postgres.connect import Connection, connect
from gauss.connect.sync import SyncResult
from helpers.cdc_people import APPEND, UPSERT, create, cursor_of, drop_replication, failed, log_of, ran, same, slots
from helpers.waiting import stays, wait_until

pytestmark = pytest.mark.system


@pytest.fixture
def connection(server: EmbeddedServer) -> Iterator[Connection]:
    with connect(server.endpoint, autocommit=True) as made:
        create(made)
        yield made
        drop_replication(made)


def test_changes_are_upserted_and_an_idle_run_between_them_reads_nothing(make: Any, connection: Connection) -> None:
    assert ran(make(UPSERT)) == (500, 500) and same(connection)
    assert ran(make(UPSERT)) == (0, 0)
    connection.execute("INSERT INTO people VALUES (1001, 'new', 1, '{}'), (1002, 'newer', NULL, NULL)")
    connection.execute(
        "UPDATE people SET name = name || '!' WHERE id <= 10; DELETE FROM people WHERE id BETWEEN 5 AND 7"
    )
    assert ran(make(UPSERT)) == (15, 15) and same(connection)
    assert ran(make(UPSERT)) == (0, 0) and same(connection)
    names = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'landing.people'::regclass"
    ).fetchall()
    assert ("_op",) not in names


def test_table_contains_exactly_the_rows_that_a_program_selects(make: Any, connection: Connection) -> None:
    stream = {**UPSERT, "transform": {"program": "select(.worth < 100)"}}
    ran(make(stream))
    connection.execute("UPDATE people SET worth = 500 WHERE id = 1; UPDATE people SET worth = 1 WHERE id = 500")
    connection.execute("DELETE FROM people WHERE id = 2; UPDATE people SET name = 'x' WHERE id = 450")
    ran(make(stream))
    connection.execute("CREATE OR REPLACE VIEW cheap AS SELECT * FROM people WHERE worth < 100")
    assert same(connection, "cheap")


def test_changes_are_appended_with_their_operation(make: Any, connection: Connection) -> None:
    assert ran(make(APPEND)) == (500, 500)
    assert log_of(connection, "_op <> 'insert'") == []
    connection.execute("INSERT INTO people VALUES (1001, 'new'); UPDATE people SET name = 'x' WHERE id = 1")
    connection.execute("DELETE FROM people WHERE id = 2; UPDATE people SET id = 3000 WHERE id = 3")
    assert ran(make(APPEND)) == (5, 5)
    assert log_of(connection)[500:] == [
        ("insert", 1001, "new"),
        ("update", 1, "x"),
        ("delete", 2, None),
        ("delete", 3, None),
        ("insert", 3000, "person 3"),
    ]
    assert ran(make(APPEND)) == (0, 0)


def test_slot_is_confirmed_only_up_to_the_committed_position(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    ((name, first),) = slots(connection)
    assert name.startswith("gauss_people_public_people_")
    connection.execute("ALTER TABLE landing.people ADD CONSTRAINT small CHECK (worth < 9999)")
    connection.execute("UPDATE people SET worth = 10000 WHERE id = 1")
    committed = cursor_of(make(UPSERT))["lsn"]
    for _ in range(2):
        failed(make(UPSERT).run(), "CONSTRAINT")
        assert slots(connection) == [(name, committed)] and cursor_of(make(UPSERT))["lsn"] == committed
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT small")
    assert ran(make(UPSERT)) == (1, 1) and same(connection)
    committed = cursor_of(make(UPSERT))["lsn"]
    assert slots(connection) != [(name, committed)]
    ran(make(UPSERT))
    assert slots(connection) == [(name, committed)] and first != committed


def test_rows_written_during_the_snapshot_are_copied_once(make: Any, connection: Connection, server: Any) -> None:
    stop = threading.Event()

    def write() -> None:
        with connect(server.endpoint, autocommit=True) as other:
            number = 10_000
            while not stop.is_set():
                number += 1
                other.execute("INSERT INTO people VALUES (%s, 'late')", [number])
                other.execute("UPDATE people SET worth = worth + 1 WHERE id = %s", [number % 500])
                other.execute("DELETE FROM people WHERE id = %s", [number - 20])

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(4):
            ran(make(UPSERT))
    finally:
        stop.set()
        writing.join()
    ran(make(UPSERT))
    assert same(connection)


def test_append_has_every_row_of_snapshot_and_changes_once(make: Any, connection: Connection, server: Any) -> None:
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        with connect(server.endpoint, autocommit=True) as other:
            while not stop.is_set():
                written.append(10_000 + len(written))
                other.execute("INSERT INTO people VALUES (%s, 'late')", [written[-1]])

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(3):
            ran(make(APPEND))
    finally:
        stop.set()
        writing.join()
    ran(make(APPEND))
    found = [row[0] for row in log_of(connection, "id >= 10000", "id")]
    assert sorted(found) == written and len(written) > 3


def test_last_change_of_a_key_wins(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute(
        "BEGIN; DELETE FROM people WHERE id = 1; INSERT INTO people VALUES (1, 'again'); COMMIT;"
        "BEGIN; INSERT INTO people VALUES (900, 'short'); DELETE FROM people WHERE id = 900; COMMIT;"
        "UPDATE people SET id = 901 WHERE id = 2; UPDATE people SET id = 2 WHERE id = 3;"
        "UPDATE people SET id = 3 WHERE id = 901"
    )
    ran(make(UPSERT))
    assert same(connection)


def test_unchanged_toast_value_is_kept(make: Any, connection: Connection) -> None:
    connection.execute(
        "ALTER TABLE people ADD COLUMN doc text; ALTER TABLE people ALTER COLUMN doc SET STORAGE EXTERNAL"
    )
    connection.execute("UPDATE people SET doc = repeat(md5(id::text), 200) WHERE id <= 300")
    ran(make(UPSERT))
    connection.execute("UPDATE people SET worth = 7 WHERE id <= 300; UPDATE people SET id = 7000 WHERE id = 7")
    connection.execute("UPDATE people SET worth = 8 WHERE id = 8; DELETE FROM people WHERE id = 8")
    ran(make(UPSERT))
    assert same(connection)
    connection.execute("ALTER TABLE people REPLICA IDENTITY FULL; UPDATE people SET worth = 9 WHERE id <= 300")
    connection.execute("UPDATE people SET id = 9000 WHERE id = 9; DELETE FROM people WHERE id = 10")
    ran(make(UPSERT))
    assert same(connection)


def test_partitioned_table_is_captured_by_its_partitions(make: Any, connection: Connection) -> None:
    connection.execute(
        "DROP TABLE people; CREATE TABLE people (id bigint PRIMARY KEY, name text) PARTITION BY RANGE (id);"
        "CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE people_2 (name text, id bigint NOT NULL); "
        "ALTER TABLE people ATTACH PARTITION people_2 FOR VALUES FROM (100) TO (200);"
        "INSERT INTO people SELECT n, 'person ' || n FROM generate_series(1, 199) n"
    )
    ran(make(UPSERT))
    connection.execute(
        "UPDATE people SET id = 150 + id / 100 WHERE id = 0; UPDATE people SET name = 'x' WHERE id IN (5, 105)"
    )
    connection.execute("DELETE FROM people WHERE id = 150; UPDATE people SET id = 150 WHERE id = 50")
    ran(make(UPSERT))
    assert same(connection)
    connection.execute("DROP TABLE people CASCADE")


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_every_load_method_deletes_by_key(make: Any, connection: Connection, server: Any, load: str) -> None:
    connection.execute(
        'DROP TABLE people; CREATE TABLE people (id numeric, "k%s" int[], at timestamptz, v text,'
        ' PRIMARY KEY (id, "k%s", at))'
    )
    connection.execute(
        "INSERT INTO people SELECT n / 3.0, ARRAY[n, NULL], 'epoch'::timestamptz + n * '1 s'::interval, 'v'"
        " FROM generate_series(1, 99) n"
    )
    stream = {"mode": "cdc", "write": "upsert", "key": ["id", "k%s", "at"]}
    side = {"connector": "postgres", "dsn": server.endpoint.url, "schema": "landing", "load": load}
    ran(make(stream, destination=side))
    connection.execute(
        "DELETE FROM people WHERE id < 10; UPDATE people SET v = 'w' WHERE id < 20; DELETE FROM people WHERE id < 12"
    )
    ran(make(stream, destination=side))
    assert same(connection)


def test_plan_has_an_operation_column_only_for_append(make: Any, connection: Connection) -> None:
    (upserted,), (appended,) = (make(stream).dry_run() for stream in (UPSERT, APPEND))
    assert "_op" not in " ".join(upserted.statements) and '"_op" TEXT NOT NULL' in " ".join(appended.statements)
    for plan in (upserted, appended):
        # A delete has values of the key only.
        assert '"name" TEXT,' in plan.statements[-1] and '"id" BIGINT NOT NULL' in plan.statements[-1]
    connection.execute("ALTER TABLE people ADD COLUMN _op text")
    assert "which is the operation of a change" in failed(make(UPSERT).run(), "BAD_STREAMS")


def test_changes_of_child_tables_are_captured(make: Any, connection: Connection) -> None:
    connection.execute("CREATE TABLE child (extra int, PRIMARY KEY (id)) INHERITS (people)")
    ran(make(UPSERT))
    connection.execute("INSERT INTO child VALUES (2001, 'in the child'); INSERT INTO people VALUES (2002, 'beside it')")
    connection.execute("UPDATE child SET name = 'changed'; DELETE FROM people WHERE id = 1")
    assert ran(make(UPSERT)) == (4, 4) and same(connection)


def test_checks_of_both_sides_succeed(make: Any, connection: Connection) -> None:
    assert connection.info.user
    assert {role: found.status for role, found in make(UPSERT).check().items()} == {
        "source": "success",
        "destination": "success",
    }


@pytest.mark.parametrize("stream", [UPSERT, APPEND], ids=["upsert", "append"])
def test_follow_sync_writes_changes_until_it_is_stopped(
    make: Any, connection: Connection, stream: dict[str, Any]
) -> None:
    sync, found = make(stream, follow=True), list[SyncResult]()
    running = threading.Thread(target=lambda: found.append(sync.run()))
    running.start()

    def landed(name: str) -> bool:
        there = connection.execute("SELECT to_regclass('landing.people')").fetchone()
        query = "SELECT count(*) FROM landing.people WHERE name = %s"
        return there != (None,) and connection.execute(query, [name]).fetchone() == (1,)

    try:
        wait_until(lambda: landed("person 500"), 60)
        for number in range(3):
            connection.execute("UPDATE people SET name = %s WHERE id = 7", [f"change {number}"])
            wait_until(lambda number=number: landed(f"change {number}"), 60)  # type: ignore[misc]
        [(confirmed,)] = connection.execute("SELECT confirmed_flush_lsn FROM pg_replication_slots").fetchall()
        connection.execute("DELETE FROM people WHERE id = 8; INSERT INTO people VALUES (1000, 'last')")
        wait_until(lambda: landed("last"), 60)
        moved = "SELECT confirmed_flush_lsn > %s FROM pg_replication_slots"
        wait_until(lambda: connection.execute(moved, [confirmed]).fetchone() == (True,), 60)
    finally:
        sync.drain()
        running.join(60)
    assert found[0].status == "cancelled", found[0].error
    if stream is UPSERT:
        assert same(connection)
    else:
        assert [row[0] for row in log_of(connection, "id IN (7, 8, 1000)", "_op")].count("update") == 3
    assert ran(make(stream))[0] == 0


def test_idle_follow_sync_makes_no_further_checkpoints(make: Any, connection: Connection) -> None:
    """Its own commits are in the WAL that it reads."""
    events: list[dict[str, Any]] = []
    sync = make(UPSERT, follow=True)
    sync._emit = events.append
    running = threading.Thread(target=sync.run)
    running.start()
    try:
        wait_until(lambda: any(each["event"] == "checkpoint" for each in events), 60)
        connection.execute("UPDATE people SET name = 'x' WHERE id = 1")
        wait_until(lambda: sum(each["event"] == "checkpoint" for each in events) >= 2, 60)
        settled = sum(each["event"] == "checkpoint" for each in events)
        stays(lambda: sum(each["event"] == "checkpoint" for each in events) <= settled + 1, 1.5)
    finally:
        sync.drain()
        running.join(60)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_database_with_another_encoding_is_captured(
    make: Any, connection: Connection, server: EmbeddedServer, encoding: str
) -> None:
    connection.execute(f"CREATE DATABASE other TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'".encode())
    source = {"connector": "postgres", "dsn": f"{server.endpoint.url.rpartition('/')[0]}/other"}
    with connect(source["dsn"], autocommit=True) as other:
        try:
            other.execute("SET client_encoding = 'UTF8'")
            other.execute("CREATE TABLE people (id bigint PRIMARY KEY, näme text); INSERT INTO people VALUES (1, 'é')")
            ran(make(UPSERT, source=source))
            other.execute("UPDATE people SET näme = 'ß'; INSERT INTO people VALUES (2, 'ÿ')")
            ran(make(UPSERT, source=source))
            assert connection.execute("SELECT * FROM landing.people ORDER BY 1").fetchall() == [(1, "ß"), (2, "ÿ")]
        finally:
            drop_replication(other)
            connection.execute("DROP DATABASE other WITH (FORCE)")
