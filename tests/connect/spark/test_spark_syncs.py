"""Syncs on a local Spark: partitions as tasks, transforms, lost processes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from gauss import registry
from gauss.clients.embedded import EmbeddedServer
from gauss.clients.postgres.connect import Connection
from gauss.connect.spark import runner
from gauss.connect.sync import SyncResult
from gauss.contracts.connector.errors import ErrorCategory
from gauss.spark import session
from gauss.spark.session import Spark
from helpers import cdc_people, people
from helpers.disks import fill, small_file_system
from helpers.people import same, succeeded
from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
ROWS = 20_000

# Sources beside the config: the postgres source, whose process dies once, or which stops until it is told.
SOURCES = """
import os, pathlib, signal, time
from gauss.plugins.connectors.postgres.source import PostgresSource

def here(name):
    return pathlib.Path(os.environ["GAUSS_PLUGIN_DIR"]) / name

class Dying(PostgresSource):
    def run_read(self, stream):
        flag = here("died")
        if not flag.exists():
            flag.touch()
            emit, seen = self._host.emit_batch, []
            def emit_and_die(batch):
                emit(batch)
                seen.append(batch)
                if len(seen) == (15 if here("late").exists() else 3):
                    time.sleep(0.5)
                    os.kill(os.getpid(), signal.SIGKILL)
            self._host.emit_batch = emit_and_die
        return super().run_read(stream)

class Slow(PostgresSource):
    def run_read(self, stream):
        emit = self._host.emit_batch
        def slowly(batch):
            emit(batch)
            here("reading").touch()
            time.sleep(0.05)
        self._host.emit_batch = slowly
        return super().run_read(stream)
"""


@pytest.fixture(autouse=True)
def on_spark(started_spark: Spark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Syncs run on the same Spark, and stop nothing at their end."""
    monkeypatch.setattr(session, "start", lambda *_, **__: started_spark)
    monkeypatch.setattr(runner.SparkRunner, "close", lambda _: None)
    (tmp_path / "sources.py").write_text(SOURCES)
    monkeypatch.setenv(registry.PLUGIN_DIR, str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def make(make: Any) -> Any:
    """Makes a sync of `people` that runs on Spark."""
    return lambda stream, **more: make(stream, runs_on="spark", **more)


@pytest.fixture
def rows(connection: Connection) -> Connection:
    people.create(connection, ROWS)
    return connection


@pytest.fixture
def source(server: EmbeddedServer) -> dict[str, Any]:
    """A source with small partitions and batches."""
    return {"connector": "postgres", "dsn": server.endpoint.url, "partition_bytes": "256KiB"}


SMALL = {"max_batch_bytes": "64KiB"}


def test_partitions_run_as_tasks_and_each_row_is_written_once(
    make: Any, rows: Connection, source: dict[str, Any]
) -> None:
    events: list[dict[str, Any]] = []
    result = succeeded(make({}, source=source, emit=events.append).run())
    assert same(rows) and result.streams[0].write.records_written == ROWS
    assert [each["event"] for each in events].count("checkpoint") >= 4  # one for each partition
    assert [each["why"] for each in events if each["event"] == "spark"]


def test_incremental_stream_is_one_task_that_resumes_at_its_cursor(make: Any, rows: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    succeeded(make(stream, limits=SMALL).run())
    rows.execute("INSERT INTO people SELECT n, 'late' FROM generate_series(30001, 30010) n")
    assert succeeded(make(stream).run()).streams[0].read.records_read == 10
    assert same(rows)


def test_changes_are_followed_by_a_standing_task_until_it_is_stopped(make: Any, connection: Connection) -> None:
    cdc_people.create(connection)
    events: list[dict[str, Any]] = []
    sync, found = make(cdc_people.UPSERT, follow=True, emit=events.append), list[SyncResult]()
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
        [(_, confirmed)] = cdc_people.slots(connection)
        connection.execute("DELETE FROM people WHERE id = 8; INSERT INTO people VALUES (1000, 'last')")
        wait_until(lambda: landed("last"), 60)
        wait_until(lambda: cdc_people.slots(connection)[0][1] != confirmed, 60)
    finally:
        sync.drain()
        running.join(60)
    try:
        assert found[0].status == "cancelled", found[0].error
        assert {each["why"] for each in events if each["event"] == "spark"} == {'asked for by runs_on = "spark"'}
        assert cdc_people.same(connection) and cdc_people.ran(make(cdc_people.UPSERT))[0] == 0
    finally:
        cdc_people.drop_replication(connection)


def test_program_runs_inside_the_tasks(make: Any, rows: Connection, source: dict[str, Any]) -> None:
    program = "select(.id % 2 == 0) | {id, data, half: .worth / 2}"
    succeeded(make({"transform": {"program": program}}, source=source).run())
    expected = "SELECT id, data, (worth / 2)::float8 AS half FROM people WHERE id % 2 = 0"
    there = "SELECT * FROM landing.people"
    assert rows.execute(f"({expected}) EXCEPT ALL ({there})".encode()).fetchall() == []
    assert rows.execute("SELECT count(*), pg_typeof(min(data::text)::jsonb)::text FROM landing.people").fetchall() == [
        (ROWS // 2, "jsonb")
    ]


def test_columns_that_files_of_other_partitions_lack_are_null(
    make: Any, connection: Connection, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number, columns in enumerate((["n", "a"], ["n"], ["n", "b"])):
        lines = [json.dumps(dict.fromkeys(columns, 10 * number + row)) for row in range(10)]
        (tmp_path / "in" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    source = {"connector": "file", "path": str(tmp_path / "in")}
    events: list[dict[str, Any]] = []
    sync = make({"name": "in", "table": "files"}, source=source, emit=events.append)
    assert succeeded(sync.run()).streams[0].write.records_written == 30
    assert [each["event"] for each in events].count("checkpoint") >= 2  # the files are of several partitions
    sums = connection.execute("SELECT sum(n), sum(a), sum(b) FROM landing.files").fetchall()
    assert sums == [(435, 45, 245)]


def test_rows_pass_through_the_query_to_the_destination(make: Any, rows: Connection, source: dict[str, Any]) -> None:
    query = "SELECT id, upper(name) AS name, data, worth, born FROM input WHERE id > 10"
    succeeded(make({"transform": {"sql": query}}, source=source).run())
    expected = "SELECT id, upper(name), data, worth, born FROM people WHERE id > 10"
    assert rows.execute(f"({expected}) EXCEPT ALL (SELECT * FROM landing.people)".encode()).fetchall() == []
    assert rows.execute("SELECT count(*) FROM landing.people").fetchall() == [(ROWS - 10,)]
    found = rows.execute("SELECT pg_typeof(data)::text, pg_typeof(born)::text FROM landing.people LIMIT 1").fetchall()
    assert found == [("jsonb", "date")]  # columns that are passed on keep their types


def test_query_aggregates_all_partitions(make: Any, rows: Connection, source: dict[str, Any]) -> None:
    query = "SELECT id % 4 AS rest, count(*) AS n, sum(worth) AS worth FROM input GROUP BY 1"
    succeeded(make({"transform": {"sql": query}}, source=source).run())
    expected = "SELECT id % 4, count(*), sum(worth) FROM people GROUP BY 1"
    assert rows.execute(f"({expected}) EXCEPT (SELECT * FROM landing.people)".encode()).fetchall() == []
    assert rows.execute("SELECT count(*) FROM landing.people").fetchall() == [(4,)]


def test_cursor_moves_with_the_rows_of_a_query(make: Any, rows: Connection) -> None:
    stream = {
        "mode": "incremental",
        "cursor": "id",
        "transform": {"sql": "SELECT id, name FROM input WHERE id % 2 = 0"},
    }
    for _ in range(2):
        succeeded(make(stream).run())
        rows.execute("INSERT INTO people SELECT max(id) + 1, 'odd' FROM people")
    rows.execute("INSERT INTO people SELECT max(id) + 1, 'even' FROM people")
    assert succeeded(make(stream).run()).streams[0].read.records_read == 2
    count = rows.execute("SELECT count(*), count(DISTINCT id) FROM landing.people").fetchall()
    assert count == rows.execute("SELECT count(*), count(*) FROM people WHERE id % 2 = 0").fetchall()


def test_query_that_spark_refuses_is_a_config_error(make: Any, rows: Connection) -> None:
    result = make({"transform": {"sql": "SELECT nope FROM input"}}).run()
    assert result.status == "failed" and result.error.category is ErrorCategory.CONFIG
    assert "nope" in result.error.message and "\n" not in result.error.message
    assert rows.execute("SELECT to_regclass('landing.people')").fetchall() == [(None,)]


@pytest.mark.parametrize(
    "stream",
    [
        {},
        {"mode": "incremental", "cursor": "id"},
        {"transform": {"sql": "SELECT * FROM input"}},
        {"mode": "incremental", "cursor": "id", "transform": {"sql": "SELECT * FROM input"}},
    ],
    ids=["partition", "increment", "query", "query of an increment"],
)
def test_killed_task_process_loses_and_duplicates_no_rows(
    make: Any, rows: Connection, source: dict[str, Any], stream: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = {"rows": 1_000}
    sync = make(
        stream, source={**source, "connector": "sources:Dying"}, limits=SMALL, checkpoint=checkpoint, max_attempts=3
    )
    succeeded(sync.run())
    assert (tmp_path / "died").exists() and same(rows)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark passes on rows long before the end of a query."""
    made = runner.SparkRunner._session

    def session_of(self: runner.SparkRunner) -> Any:
        session = made(self)
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        return session

    monkeypatch.setattr(runner.SparkRunner, "_session", session_of)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("mode", ["full_refresh", "incremental"])
def test_query_whose_source_is_killed_after_the_first_rows_loses_no_rows(
    make: Any, rows: Connection, server: EmbeddedServer, mode: str, tmp_path: Path
) -> None:
    (tmp_path / "late").touch()
    stream = {"mode": mode, "transform": {"sql": "SELECT * FROM input"}}
    stream |= {"cursor": "id"} if mode == "incremental" else {}
    source = {"connector": "sources:Dying", "dsn": server.endpoint.url}
    succeeded(make(stream, source=source, limits=SMALL, checkpoint={"rows": 1_000}, max_attempts=3).run())
    assert (tmp_path / "died").exists() and same(rows)


@pytest.mark.fault
@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("mode", [{}, {"mode": "incremental", "cursor": "id"}], ids=["refresh", "increment"])
def test_a_disk_that_fills_up_under_the_tasks_costs_no_row(
    make: Any, source: dict[str, Any], tmp_path: Path, mode: dict[str, str]
) -> None:
    with small_file_system(tmp_path / "small", "8m") as disk:
        ballast = disk / "ballast"
        fill(ballast)
        os.truncate(ballast, ballast.stat().st_size - (256 << 10))
        destination = {"connector": "file", "path": str(disk / "out"), "format": "jsonl"}
        given = {"source": source, "destination": destination, "limits": SMALL, "checkpoint": {"rows": 4_000}}
        result = make(mode, **given, max_attempts=1).run()
        assert result.status == "failed" and result.error.code == "DISK_FULL", result.error
        before = landed_ids(disk / "out")
        assert before == ([] if not mode else list(range(1, len(before) + 1))) and len(before) < ROWS
        ballast.unlink()
        succeeded(make(mode, **given).run())
        assert landed_ids(disk / "out") == list(range(1, ROWS + 1))


def landed_ids(folder: Path) -> list[int]:
    """The ids of all rows that files show."""
    files = folder.glob("*/*.jsonl") if folder.exists() else ()
    return sorted(json.loads(line)["id"] for each in files for line in each.read_text().splitlines())


def test_error_of_a_task_ends_the_stream_with_its_category(make: Any, rows: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    succeeded(make(stream).run())
    rows.execute("ALTER TABLE landing.people ADD CHECK (id <> 30003)")
    rows.execute("INSERT INTO people SELECT n, 'new' FROM generate_series(30001, 30005) n")
    failed = make(stream).run()
    assert failed.status == "failed" and failed.error.category is ErrorCategory.DATA
    sync = make(stream, policies={"on_data_error": "dlq"})
    assert succeeded(sync.run()).streams[0].letters == 1
    assert [str(letter["row"]["id"]) for letter in sync.letters] == ["30003"]


@pytest.mark.parametrize("query", [False, True], ids=["plain", "query"])
def test_drained_sync_keeps_committed_rows(
    make: Any, rows: Connection, source: dict[str, Any], tmp_path: Path, query: bool
) -> None:
    stream: dict[str, Any] = {"mode": "incremental", "cursor": "id"}
    if query:
        stream["transform"] = {"sql": "SELECT * FROM input"}
    given = {"limits": SMALL, "checkpoint": {"rows": 1_000}}
    sync = make(stream, source={**source, "connector": "sources:Slow"}, **given)
    found: list[Any] = []
    running = threading.Thread(target=lambda: found.append(sync.run()))
    running.start()
    wait_until((tmp_path / "reading").exists, 60)
    sync.drain()
    running.join(60)
    assert found[0].status == "cancelled", found[0].error
    succeeded(make(stream, source=source, **given).run())
    assert same(rows)
