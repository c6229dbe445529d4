"""Faults of change data capture: a lost slot, changes of the table, missing keys and privileges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.embedded import EmbeddedServer
from gauss.clients.postgres.connect import Connection, connect
from gauss.connect.sync import Sync
from gauss.contracts.connector.errors import ErrorCategory
from helpers.cdc_people import APPEND, UPSERT, create, drop_replication, failed, log_of, ran, reset, same, slots

pytestmark = pytest.mark.system


@pytest.fixture
def connection(server: EmbeddedServer) -> Iterator[Connection]:
    with connect(server.endpoint, autocommit=True) as made:
        create(made)
        yield made
        drop_replication(made)


def test_reset_stream_takes_a_new_snapshot_with_a_new_slot(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("DELETE FROM people WHERE id > 400")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (400, 400)
    assert same(connection) and len(slots(connection)) == 1
    connection.execute("DELETE FROM people WHERE id = 1")
    assert ran(make(UPSERT)) == (1, 1) and same(connection)


def test_truncate_is_an_error_until_the_stream_is_reset(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute(
        "INSERT INTO people VALUES (1001, 'new'); TRUNCATE people; INSERT INTO people VALUES (1, 'first')"
    )
    for _ in range(2):
        assert "gauss syncs state reset people public.people" in failed(make(UPSERT).run(), "TRUNCATED")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (1, 1) and same(connection)


@pytest.mark.parametrize("truncated", ["people", "people_1"])
def test_truncate_of_partitions_is_an_error_until_the_stream_is_reset(
    make: Any, connection: Connection, truncated: str
) -> None:
    connection.execute(
        "DROP TABLE people; CREATE TABLE people (id bigint PRIMARY KEY, name text) PARTITION BY RANGE (id);"
        "CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE people_2 PARTITION OF people DEFAULT;"
        "INSERT INTO people SELECT n, 'person ' || n FROM generate_series(1, 199) n"
    )
    ran(make(UPSERT))
    connection.execute("CREATE TABLE people_3 PARTITION OF people FOR VALUES FROM (200) TO (300)")
    connection.execute("INSERT INTO people VALUES (250, 'in a new partition')")
    assert ran(make(UPSERT)) == (1, 1) and same(connection)
    connection.execute(f"TRUNCATE {truncated}".encode())
    failed(make(UPSERT).run(), "TRUNCATED")
    reset(make(UPSERT))
    ran(make(UPSERT))
    assert same(connection)


@pytest.mark.parametrize("is_lost", [False, True], ids=["with its state", "state lost, too"])
def test_missing_slot_is_an_error_until_the_stream_is_reset(
    make: Any, connection: Connection, tmp_path: Path, is_lost: bool
) -> None:
    for number in range(5):  # so that the table knows a later run than a new state does
        connection.execute("INSERT INTO people VALUES (%s, 'new')", [1001 + number])
        ran(make(UPSERT))
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*") if is_lost else ():
        file.unlink()
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    connection.execute("DELETE FROM people WHERE id = 1")
    for _ in range(2):
        assert "gauss syncs state reset people public.people" in failed(make(UPSERT).run(), "SLOT_GONE")
    assert slots(connection) == []
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (504, 504) and same(connection)


def test_a_sync_of_another_data_directory_with_the_same_name_does_not_take_the_slot(
    make: Any, connection: Connection, server: EmbeddedServer, tmp_path: Path
) -> None:
    ran(make(UPSERT))
    [(name, _)] = before = slots(connection)
    elsewhere = {"connector": "postgres", "dsn": server.endpoint.url, "schema": "elsewhere"}
    second = Sync(make(UPSERT, destination=elsewhere).definition, tmp_path, tmp_path / "another")
    for _ in range(2):
        message = failed(second.run(), "SLOT_TAKEN")
    assert f"pg_drop_replication_slot('{name}')" in message and slots(connection) == before
    connection.execute("DELETE FROM people WHERE id = 1")
    assert ran(make(UPSERT)) == (1, 1) and same(connection)


def test_a_lost_state_is_no_loss_of_the_slot(make: Any, connection: Connection, tmp_path: Path) -> None:
    ran(make(UPSERT))
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        file.unlink()
    connection.execute("DELETE FROM people WHERE id = 1")
    assert ran(make(UPSERT)) == (1, 1) and same(connection)
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (499, 499) and same(connection)


def test_slot_advanced_by_another_client_is_an_error(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("DELETE FROM people WHERE id = 1")
    connection.execute("SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots")
    assert "changes may be missing" in failed(make(UPSERT).run(), "SLOT_MOVED")


@pytest.mark.parametrize("made_anew", ["publication", "table"])
def test_recreated_publication_is_an_error(make: Any, connection: Connection, made_anew: str) -> None:
    ran(make(UPSERT))
    ((name,),) = connection.execute("SELECT pubname FROM pg_publication").fetchall()
    if made_anew == "publication":
        connection.execute(f"DROP PUBLICATION {name}".encode())
        connection.execute("DELETE FROM people WHERE id = 1")
        connection.execute(f"CREATE PUBLICATION {name} FOR TABLE people".encode())
    else:
        connection.execute("DROP TABLE people; CREATE TABLE people (id bigint PRIMARY KEY, name text)")
    assert "state reset" in failed(make(UPSERT).run(), "PUBLICATION_CHANGED")
    reset(make(UPSERT))
    ran(make(UPSERT))
    assert connection.execute(
        "SELECT (SELECT count(*) FROM people) = (SELECT count(*) FROM landing.people)"
    ).fetchone() == (True,)


def test_columns_added_and_dropped_between_runs_are_applied(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("UPDATE people SET worth = 1 WHERE id = 1")
    connection.execute("ALTER TABLE people ADD COLUMN age int; UPDATE people SET age = 5 WHERE id = 2")
    connection.execute("ALTER TABLE people DROP COLUMN worth; UPDATE people SET age = 6 WHERE id = 3")
    assert ran(make(UPSERT)) == (3, 3)
    columns = "id, name, age"
    assert same(connection, f"(SELECT {columns} FROM people) a", f"(SELECT {columns} FROM landing.people) b")


def test_table_without_a_key_needs_replica_identity_full(make: Any, connection: Connection) -> None:
    connection.execute("ALTER TABLE people DROP CONSTRAINT people_pkey")
    message = failed(make(APPEND).run(), "NO_IDENTITY")
    assert "ADD PRIMARY KEY" in message and "REPLICA IDENTITY FULL" in message and slots(connection) == []
    connection.execute("ALTER TABLE people REPLICA IDENTITY FULL")
    ran(make(APPEND))
    connection.execute("DELETE FROM people WHERE id = 1; UPDATE people SET name = 'x' WHERE id = 2")
    ran(make(APPEND))
    assert log_of(connection)[500:] == [("delete", 1, "person 1"), ("delete", 2, "person 2"), ("insert", 2, "x")]


def test_key_outside_the_replica_identity_is_refused(make: Any, connection: Connection) -> None:
    connection.execute("CREATE UNIQUE INDEX ON people (name)")
    message = failed(make({"mode": "cdc", "write": "upsert", "key": ["name"]}).run(), "BAD_KEY")
    assert "they have (id)" in message
    connection.execute("ALTER TABLE people REPLICA IDENTITY USING INDEX people_name_idx")
    by_name = {"mode": "cdc", "write": "upsert", "key": ["name"]}
    ran(make(by_name))
    connection.execute("DELETE FROM people WHERE id = 1; UPDATE people SET name = 'x' WHERE id = 2")
    ran(make(by_name))
    assert same(connection)


def test_cursor_of_another_mode_is_refused(make: Any, connection: Connection) -> None:
    assert ran(make({"mode": "incremental", "cursor": "id", "key": ["id"]})) == (500, 500)
    assert "state reset" in failed(make(UPSERT).run(), "BAD_CURSOR")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (500, 500) and same(connection)


def test_error_of_a_user_without_replication_names_the_grant(make: Any, connection: Connection, server: Any) -> None:
    connection.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'secret-word'")
    connection.execute("GRANT SELECT ON people TO reader")
    dsn = server.endpoint.url.replace(server.endpoint.url.split("@")[0], "postgresql://reader:secret-word")
    source = {"connector": "postgres", "dsn": dsn}
    try:
        result = make(UPSERT, source=source).run()
        message = failed(result, "NO_PUBLICATION")
        assert 'FOR TABLE "public"."people"' in message and "secret-word" not in message
        statement = message[message.index("CREATE PUBLICATION") : -1]
        connection.execute(statement.encode())
        result = make(UPSERT, source=source).run()
        assert "REPLICATION" in failed(result, "NO_REPLICATION")
        assert result.error is not None and result.error.category is ErrorCategory.PERMISSION
        connection.execute("ALTER ROLE reader REPLICATION")
        assert ran(make(UPSERT, source=source)) == (500, 500) and same(connection)
    finally:
        connection.execute("DROP OWNED BY reader; DROP ROLE reader")


def test_snapshot_that_fails_leaves_neither_rows_nor_a_slot(make: Any, connection: Connection) -> None:
    connection.execute("CREATE SCHEMA landing; CREATE TABLE landing.people (id bigint PRIMARY KEY, name text)")
    connection.execute("ALTER TABLE landing.people ADD CONSTRAINT rare CHECK (name <> 'person 200')")
    small = {"max_batch_bytes": 1024, "max_inflight_batches": 1}
    failed(make(UPSERT, limits=small).run(), "CONSTRAINT")
    assert slots(connection) == []
    assert connection.execute("SELECT count(*) FROM landing.people").fetchone() == (0,)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT rare")
    assert ran(make(UPSERT, limits=small)) == (500, 500) and same(connection)


def test_change_from_before_a_type_change_is_read_as_the_new_type(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("UPDATE people SET worth = 12.5 WHERE id = 1; ALTER TABLE people ALTER COLUMN worth TYPE text")
    connection.execute("UPDATE people SET worth = '7' WHERE id = 2")
    assert ran(make(UPSERT)) == (2, 2)
    found = connection.execute("SELECT id, worth FROM landing.people WHERE id <= 2 ORDER BY id").fetchall()
    assert [(number, float(worth)) for number, worth in found] == [(1, 12.5), (2, 7.0)]


def test_unchanged_toast_value_from_before_full_identity_is_looked_up(make: Any, connection: Connection) -> None:
    connection.execute("ALTER TABLE people ALTER COLUMN name SET STORAGE EXTERNAL")
    connection.execute("UPDATE people SET name = repeat(md5(id::text), 200) WHERE id <= 3")
    ran(make(UPSERT))
    connection.execute("UPDATE people SET worth = 7 WHERE id <= 3; ALTER TABLE people REPLICA IDENTITY FULL")
    assert ran(make(UPSERT)) == (3, 3) and same(connection)
    connection.execute("ALTER TABLE people REPLICA IDENTITY DEFAULT; UPDATE people SET worth = 8 WHERE id <= 3")
    connection.execute("ALTER TABLE people REPLICA IDENTITY FULL; ALTER TABLE people DROP CONSTRAINT people_pkey")
    assert "name" in failed(make(UPSERT).run(), "NO_IDENTITY")


def test_child_table_added_later_is_an_error_until_the_stream_is_reset(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("CREATE TABLE child (PRIMARY KEY (id)) INHERITS (people)")
    connection.execute("INSERT INTO child VALUES (1001, 'in the child')")
    assert "state reset" in failed(make(UPSERT).run(), "PUBLICATION_CHANGED")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (501, 501) and same(connection)
    connection.execute("UPDATE child SET name = 'changed'")
    assert ran(make(UPSERT)) == (1, 1) and same(connection)


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (other)"], ids=["none", "another"])
def test_child_table_without_the_key_is_refused(make: Any, connection: Connection, key: str) -> None:
    connection.execute(f"CREATE TABLE child (other int{key}) INHERITS (people)".encode())
    connection.execute("INSERT INTO child VALUES (1001, 'in the child', 1, NULL, 1)")
    message = failed(make(UPSERT).run(), "NO_IDENTITY")
    assert "child" in message and slots(connection) == []
    connection.execute("UPDATE child SET name = 'still works'")
    connection.execute("ALTER TABLE child REPLICA IDENTITY FULL")
    ran(make(UPSERT))
    connection.execute("UPDATE child SET name = 'captured'")
    assert ran(make(UPSERT)) == (1, 1) and same(connection, "(SELECT * FROM people) p")
