"""Change data capture from Postgres to Postgres: the snapshot, changes, and runs that end halfway."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.postgres.connect import Connection, connect
from gauss.config.syncs import SyncDef
from gauss.connect.runs import start_run
from gauss.connect.state import StreamCursor
from gauss.connect.stream_job import ATTEMPTS
from gauss.connect.sync import Sync, SyncResult
from gauss.contracts.connector.cursor import JsonCursor
from gauss.contracts.connector.errors import ErrorCategory
from helpers.waiting import stays, wait_until

pytestmark = pytest.mark.system
UPSERT = {"mode": "cdc", "write": "upsert", "key": ["id"]}
APPEND = {"mode": "cdc", "write": "append"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as made:
        yield made


@pytest.fixture
def connection(server: EmbeddedServer) -> Iterator[Connection]:
    with connect(server.endpoint, autocommit=True) as made:
        made.execute("DROP SCHEMA IF EXISTS landing CASCADE; DROP TABLE IF EXISTS people CASCADE")
        made.execute(
            "CREATE TABLE people (id bigint PRIMARY KEY, name text NOT NULL, worth numeric(12, 2), tags text[]);"
            "INSERT INTO people SELECT n, 'person ' || n, n / 4.0, ARRAY['a', n::text] FROM generate_series(1, 500) n"
        )
        yield made
        drop_replication(made)


def drop_replication(connection: Connection) -> None:
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
    for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
        connection.execute(f'DROP PUBLICATION "{name}"'.encode())


@pytest.fixture
def make(server: EmbeddedServer, tmp_path: Path) -> Any:
    def run(stream: dict[str, Any], **more: Any) -> Sync:
        side = {"connector": "postgres", "dsn": server.endpoint.url}
        text = {
            "name": "people",
            "source": side,
            "destination": {**side, "schema": "landing"},
            "streams": [{"name": "public.people", **stream}],
            **more,
        }
        return Sync(SyncDef.model_validate(text), tmp_path, tmp_path / ".gauss")

    return run


def ran(sync: Sync) -> tuple[int, int]:
    """Rows read and written by a run that succeeds."""
    result = sync.run()
    assert result.status == "succeeded", result.error
    (stream,) = result.streams
    return stream.read.records_read, stream.write.records_written


def failed(result: SyncResult, code: str) -> str:
    """The message and the hint of a run that fails with a code."""
    assert result.status == "failed" and result.error is not None
    assert result.error.code == code, result.error
    return f"{result.error.message} ({result.error.hint})"


def reset(sync: Sync, stream: str = "public.people") -> None:
    """What `gauss syncs state reset` does."""
    store = sync.store()
    run = start_run(store, sync.definition.name)
    store.move(sync.definition.name, stream, StreamCursor(run.generation * ATTEMPTS, None, 0, 0), "edited")
    run.end("edited")
    store.close()


def same(connection: Connection, here: str = "public.people", there: str = "landing.people") -> bool:
    """Whether the table has the rows of its source, each once."""
    first, second = f"SELECT * FROM {here}", f"SELECT * FROM {there}"
    differing = f"({first} EXCEPT ALL {second}) UNION ALL ({second} EXCEPT ALL {first})"
    return connection.execute(differing.encode()).fetchall() == []


def cursor_of(sync: Sync) -> Any:
    store = sync.store()
    found = store.cursor("people", "public.people")
    store.close()
    assert found is not None and isinstance(found.value, JsonCursor)
    return found.value.value


def log_of(connection: Connection, where: str = "true", columns: str = "_op, id, name") -> list[tuple[Any, ...]]:
    """Changes that were appended, in their order."""
    return connection.execute(f"SELECT {columns} FROM landing.people WHERE {where} ORDER BY ctid".encode()).fetchall()


def slots(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots").fetchall()


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


def test_only_what_the_destination_has_committed_is_confirmed(make: Any, connection: Connection) -> None:
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


def test_rows_written_during_the_snapshot_are_there_once(make: Any, connection: Connection, server: Any) -> None:
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


def test_an_append_has_every_row_of_snapshot_and_changes_once(make: Any, connection: Connection, server: Any) -> None:
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


def test_the_last_change_of_a_key_counts_whatever_came_before(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute(
        "BEGIN; DELETE FROM people WHERE id = 1; INSERT INTO people VALUES (1, 'again'); COMMIT;"
        "BEGIN; INSERT INTO people VALUES (900, 'short'); DELETE FROM people WHERE id = 900; COMMIT;"
        "UPDATE people SET id = 901 WHERE id = 2; UPDATE people SET id = 2 WHERE id = 3;"
        "UPDATE people SET id = 3 WHERE id = 901"
    )
    ran(make(UPSERT))
    assert same(connection)


def test_a_large_unchanged_value_is_kept(make: Any, connection: Connection) -> None:
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


def test_a_reset_leads_to_a_new_snapshot_and_a_new_slot(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("DELETE FROM people WHERE id > 400")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (400, 400)
    assert same(connection) and len(slots(connection)) == 1
    connection.execute("DELETE FROM people WHERE id = 1")
    assert ran(make(UPSERT)) == (1, 1) and same(connection)


def test_a_truncate_is_an_error_until_the_stream_is_reset(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute(
        "INSERT INTO people VALUES (1001, 'new'); TRUNCATE people; INSERT INTO people VALUES (1, 'first')"
    )
    for _ in range(2):
        assert "gauss syncs state reset people public.people" in failed(make(UPSERT).run(), "TRUNCATED")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (1, 1) and same(connection)


def test_a_slot_that_vanished_is_never_replaced_silently(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    connection.execute("DELETE FROM people WHERE id = 1")
    for _ in range(2):
        assert "gauss syncs state reset people public.people" in failed(make(UPSERT).run(), "SLOT_GONE")
    assert slots(connection) == []
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (499, 499) and same(connection)


def test_a_slot_that_somebody_else_has_moved_is_an_error(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("DELETE FROM people WHERE id = 1")
    connection.execute("SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots")
    assert "changes may be missing" in failed(make(UPSERT).run(), "SLOT_MOVED")


@pytest.mark.parametrize("made_anew", ["publication", "table"])
def test_a_publication_that_was_made_anew_is_an_error(make: Any, connection: Connection, made_anew: str) -> None:
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


def test_columns_that_were_added_and_dropped_between_runs_are_followed(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("UPDATE people SET worth = 1 WHERE id = 1")
    connection.execute("ALTER TABLE people ADD COLUMN age int; UPDATE people SET age = 5 WHERE id = 2")
    connection.execute("ALTER TABLE people DROP COLUMN worth; UPDATE people SET age = 6 WHERE id = 3")
    assert ran(make(UPSERT)) == (3, 3)
    columns = "id, name, age"
    assert same(connection, f"(SELECT {columns} FROM people) a", f"(SELECT {columns} FROM landing.people) b")


def test_a_table_without_a_key_needs_its_whole_rows_as_identity(make: Any, connection: Connection) -> None:
    connection.execute("ALTER TABLE people DROP CONSTRAINT people_pkey")
    message = failed(make(APPEND).run(), "NO_IDENTITY")
    assert "ADD PRIMARY KEY" in message and "REPLICA IDENTITY FULL" in message and slots(connection) == []
    connection.execute("ALTER TABLE people REPLICA IDENTITY FULL")
    ran(make(APPEND))
    connection.execute("DELETE FROM people WHERE id = 1; UPDATE people SET name = 'x' WHERE id = 2")
    ran(make(APPEND))
    assert log_of(connection)[500:] == [("delete", 1, "person 1"), ("delete", 2, "person 2"), ("insert", 2, "x")]


def test_a_key_that_deletes_do_not_have_is_refused(make: Any, connection: Connection) -> None:
    connection.execute("CREATE UNIQUE INDEX ON people (name)")
    message = failed(make({"mode": "cdc", "write": "upsert", "key": ["name"]}).run(), "BAD_KEY")
    assert "they have (id)" in message
    connection.execute("ALTER TABLE people REPLICA IDENTITY USING INDEX people_name_idx")
    by_name = {"mode": "cdc", "write": "upsert", "key": ["name"]}
    ran(make(by_name))
    connection.execute("DELETE FROM people WHERE id = 1; UPDATE people SET name = 'x' WHERE id = 2")
    ran(make(by_name))
    assert same(connection)


def test_a_partitioned_table_is_captured_by_its_root(make: Any, connection: Connection) -> None:
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


def test_a_cursor_of_another_mode_is_refused(make: Any, connection: Connection) -> None:
    assert ran(make({"mode": "incremental", "cursor": "id", "key": ["id"]})) == (500, 500)
    assert "state reset" in failed(make(UPSERT).run(), "BAD_CURSOR")
    reset(make(UPSERT))
    assert ran(make(UPSERT)) == (500, 500) and same(connection)


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_every_way_of_loading_deletes_by_key(make: Any, connection: Connection, server: Any, load: str) -> None:
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


def test_a_user_without_replication_is_told_what_to_grant(make: Any, connection: Connection, server: Any) -> None:
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


def test_a_snapshot_that_fails_leaves_neither_rows_nor_a_slot(make: Any, connection: Connection) -> None:
    connection.execute("CREATE SCHEMA landing; CREATE TABLE landing.people (id bigint PRIMARY KEY, name text)")
    connection.execute("ALTER TABLE landing.people ADD CONSTRAINT rare CHECK (name <> 'person 200')")
    small = {"max_batch_bytes": 1024, "max_inflight_batches": 1}
    failed(make(UPSERT, limits=small).run(), "CONSTRAINT")
    assert slots(connection) == []
    assert connection.execute("SELECT count(*) FROM landing.people").fetchone() == (0,)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT rare")
    assert ran(make(UPSERT, limits=small)) == (500, 500) and same(connection)


def test_a_plan_has_the_operation_only_where_changes_are_stored(make: Any, connection: Connection) -> None:
    (upserted,), (appended,) = (make(stream).dry_run() for stream in (UPSERT, APPEND))
    assert "_op" not in " ".join(upserted.statements) and '"_op" TEXT NOT NULL' in " ".join(appended.statements)
    for plan in (upserted, appended):
        # A delete has values of the key only.
        assert '"name" TEXT,' in plan.statements[-1] and '"id" BIGINT NOT NULL' in plan.statements[-1]
    connection.execute("ALTER TABLE people ADD COLUMN _op text")
    assert "which is the operation of a change" in failed(make(UPSERT).run(), "BAD_STREAMS")


def test_a_change_from_before_a_new_type_is_read_in_the_new_one(make: Any, connection: Connection) -> None:
    ran(make(UPSERT))
    connection.execute("UPDATE people SET worth = 12.5 WHERE id = 1; ALTER TABLE people ALTER COLUMN worth TYPE text")
    connection.execute("UPDATE people SET worth = '7' WHERE id = 2")
    assert ran(make(UPSERT)) == (2, 2)
    found = connection.execute("SELECT id, worth FROM landing.people WHERE id <= 2 ORDER BY id").fetchall()
    assert [(number, float(worth)) for number, worth in found] == [(1, 12.5), (2, 7.0)]


def test_children_of_a_table_are_captured_with_it(make: Any, connection: Connection) -> None:
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
def test_a_sync_that_follows_writes_changes_until_it_is_stopped(
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


def test_an_idle_sync_that_follows_comes_to_rest(make: Any, connection: Connection) -> None:
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
