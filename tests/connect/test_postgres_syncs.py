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
def test_a_full_refresh_makes_the_same_table(
    make: Any, connection: Connection, load: str, server: EmbeddedServer
) -> None:
    side = {"connector": "postgres", "dsn": server.endpoint.url, "schema": "landing", "load": load}
    for _ in range(2):
        succeeded(make({}, destination=side).run())
        assert same(connection)
        connection.execute("UPDATE people SET name = name || '!' WHERE id % 10 = 0; DELETE FROM people WHERE id = 5")
    assert types(connection, "landing.people") == types(connection, "public.people")


def test_equal_tables_are_copied_without_becoming_arrow(
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


def test_an_incremental_upsert_follows_its_source(make: Any, connection: Connection) -> None:
    stream = {"mode": "incremental", "cursor": "id", "key": ["id"]}
    first = succeeded(make(stream).run())
    assert first.streams[0].read.records_read == 1000 and same(connection)
    connection.execute("INSERT INTO people SELECT n, 'late ' || n FROM generate_series(1001, 1100) n")
    second = succeeded(make(stream).run())
    assert second.streams[0].read.records_read == 100 and same(connection)
    assert succeeded(make(stream).run()).streams[0].read.records_read == 0


def test_a_new_column_is_added_and_a_dry_run_shows_it_first(make: Any, connection: Connection) -> None:
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


def test_a_stream_lands_under_another_name(make: Any, connection: Connection) -> None:
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


def test_a_killed_state_file_is_no_loss_because_the_table_knows_its_watermark(
    make: Any, connection: Connection, tmp_path: Path
) -> None:
    stream = {"mode": "incremental", "cursor": "id"}
    succeeded(make(stream).run())
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        file.unlink()
    assert succeeded(make(stream).run()).streams[0].read.records_read == 0
    assert same(connection)


@pytest.mark.parametrize("stream", [{}, {"mode": "incremental", "cursor": "id"}], ids=["refresh", "increment"])
def test_a_lost_state_does_not_stop_a_sync_whose_table_knows_later_runs(
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
