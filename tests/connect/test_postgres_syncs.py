"""Syncs from Postgres to Postgres, with the connectors that ship."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gauss.clients.embedded import EmbeddedServer
from gauss.clients.postgres.connect import Connection
from gauss.connect.stream_job import StreamJob
from helpers.people import same, succeeded

pytestmark = pytest.mark.system


def types(connection: Connection, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema || '.' || table_name = %s"
        " ORDER BY ordinal_position",
        [table],
    ).fetchall()


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_full_refresh_creates_an_equal_table(
    make: Any, connection: Connection, load: str, server: EmbeddedServer
) -> None:
    side = {"connector": "postgres", "dsn": server.endpoint.url, "schema": "landing", "load": load}
    for _ in range(2):
        succeeded(make({}, destination=side).run())
        assert same(connection)
        connection.execute("UPDATE people SET name = name || '!' WHERE id % 10 = 0; DELETE FROM people WHERE id = 5")
    assert types(connection, "landing.people") == types(connection, "public.people")


def test_equal_tables_are_copied_without_conversion_to_arrow(
    make: Any, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[str] = []
    known = StreamJob._opaque

    def seen(self: StreamJob, *given: Any) -> str:
        kinds.append(known(self, *given))
        return kinds[-1]

    monkeypatch.setattr(StreamJob, "_opaque", seen)
    succeeded(make({}).run())
    assert same(connection) and kinds[0].startswith("pgcopy:")


def test_incremental_upsert_applies_the_changes_of_its_source(make: Any, connection: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id", "key": ["id"]}
    first = succeeded(make(stream).run())
    assert first.streams[0].read.records_read == 1000 and same(connection)
    connection.execute("INSERT INTO people SELECT n, 'late ' || n FROM generate_series(1001, 1100) n")
    second = succeeded(make(stream).run())
    assert second.streams[0].read.records_read == 100 and same(connection)
    assert succeeded(make(stream).run()).streams[0].read.records_read == 0


def test_new_column_is_added_and_a_dry_run_shows_it_first(make: Any, connection: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    [before] = make(stream).dry_run()
    assert any("CREATE TABLE" in each for each in before.statements)
    succeeded(make(stream).run())
    connection.execute("ALTER TABLE people ADD COLUMN mail text")
    connection.execute("INSERT INTO people (id, name, mail) VALUES (2000, 'x', 'x@y')")
    [change] = make(stream).dry_run()
    assert [str(each) for each in change.changes] == ["mail: added as string"]
    assert any("ADD COLUMN" in each and "mail" in each for each in change.statements)
    assert len(types(connection, "landing.people")) == 5
    succeeded(make(stream).run())
    assert connection.execute("SELECT mail FROM landing.people WHERE id = 2000").fetchall() == [("x@y",)]
    refused = make(stream, policies={"schema_evolution": {"removed_column": "fail"}})
    connection.execute("ALTER TABLE people DROP COLUMN born")
    result = refused.run()
    assert result.status == "failed" and "born is gone" in result.error.message


@pytest.mark.parametrize("mode", [{}, {"mode": "incremental", "cursor": "id"}], ids=["refresh", "increment"])
def test_a_needed_column_that_leaves_the_stream_follows_the_policies(
    make: Any, connection: Connection, mode: dict[str, str]
) -> None:
    connection.execute(
        "ALTER TABLE people ADD COLUMN code int NOT NULL DEFAULT 1, ADD COLUMN kind int NOT NULL DEFAULT 2"
    )
    succeeded(make(mode).run())
    connection.execute("ALTER TABLE landing.people ALTER COLUMN kind SET DEFAULT 5")
    connection.execute("ALTER TABLE people DROP COLUMN code, DROP COLUMN kind")
    connection.execute("INSERT INTO people (id, name) VALUES (2000, 'x')")
    dlq = {"on_data_error": "dlq"}
    refused = make(mode, policies={**dlq, "schema_evolution": {"nullability_change": "fail"}}).run()
    assert refused.status == "failed" and refused.error.code == "SCHEMA_CHANGED"
    assert "code is gone, and the table needs a value for it" in refused.error.message
    assert "kind" not in refused.error.message
    assert succeeded(make(mode, policies=dlq).run()).streams[0].letters == 0
    assert connection.execute("SELECT code, kind FROM landing.people WHERE id = 2000").fetchall() == [(None, 5)]
    succeeded(make(mode, policies=dlq).run())


def test_stream_is_written_to_the_configured_table(make: Any, connection: Connection) -> None:
    succeeded(make({"table": "humans"}).run())
    assert same(connection, "landing.humans")


def test_rows_that_the_table_refuses_become_dead_letters(make: Any, connection: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    succeeded(make(stream).run())
    connection.execute("ALTER TABLE landing.people ADD CHECK (id <> 2003)")
    connection.execute("INSERT INTO people SELECT n, 'new ' || n FROM generate_series(2001, 2005) n")
    sync = make(stream, policies={"on_data_error": "dlq"})
    result = succeeded(sync.run())
    assert result.streams[0].letters == 1 and [str(letter["row"]["id"]) for letter in sync.letters] == ["2003"]
    assert connection.execute("SELECT count(*) FROM landing.people WHERE id > 2000").fetchall() == [(4,)]


def test_sync_with_a_deleted_state_file_resumes_at_the_watermark_of_the_table(
    make: Any, connection: Connection, tmp_path: Path
) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    succeeded(make(stream).run())
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        file.unlink()
    assert succeeded(make(stream).run()).streams[0].read.records_read == 0
    assert same(connection)


@pytest.mark.parametrize("stream", [{}, {"mode": "incremental", "cursor": "id"}], ids=["refresh", "increment"])
def test_sync_with_lost_state_runs_though_the_table_has_later_generations(
    make: Any, connection: Connection, tmp_path: Path, stream: dict[str, Any]
) -> None:
    for _ in range(3):
        succeeded(make(stream).run())
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        file.unlink()
    for number in (2001, 2002):
        connection.execute("INSERT INTO people (id, name) VALUES (%s, 'new')", [number])
        succeeded(make(stream).run())
        assert same(connection)


@pytest.mark.parametrize(("write", "count"), [("replace", 1001), ("append", 2001)])
def test_refresh_of_files_whose_state_was_lost_after_one_run_has_the_new_rows(
    make: Any, connection: Connection, tmp_path: Path, write: str, count: int
) -> None:
    destination = {"connector": "file", "path": str(tmp_path / "out"), "format": "jsonl"}
    succeeded(make({"write": write}, destination=destination).run())
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        file.unlink()
    connection.execute("INSERT INTO people (id, name) VALUES (2001, 'new')")
    succeeded(make({"write": write}, destination=destination).run())
    found = [line for path in (tmp_path / "out").glob("*/*.jsonl") for line in path.read_text().splitlines()]
    assert len(found) == count and sum('"new"' in line for line in found) == 1
