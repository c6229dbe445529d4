"""Replay of a sync's dead letters to its destination."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.postgres.connect import Connection
from gauss.config.syncs import SyncDef
from gauss.connect import replay as replaying
from gauss.connect.attempt import Attempt, Outcome
from gauss.connect.replay import LetterReplay, Replayed
from gauss.connect.replay_journal import ReplayJournal
from gauss.connect.runs import start_run
from gauss.connect.sync import Sync
from gauss.contracts.connector.errors import CommitState, ConnectorError
from gauss.model.errors import Rejected
from gauss.plugins.connectors.postgres.destination import PostgresDestination
from helpers.people import same, succeeded

STREAM = {"mode": "incremental", "cursor": "id"}
DLQ = {"on_data_error": "dlq"}


def replay(sync: Sync, folder: Path, **chosen: Any) -> Replayed:
    def matches(number: int, letter: dict[str, Any]) -> bool:
        return all(letter[key] == value for key, value in chosen.items()) and number > 0

    return LetterReplay(sync.definition, folder, folder / ".gauss")(matches)


def refused_rows(make: Any, connection: Connection, stream: dict[str, Any], check: str = "id > 1010") -> Sync:
    """A sync whose table has refused the rows 1001 to 1010."""
    succeeded(make(stream).run())
    connection.execute(f"ALTER TABLE landing.people ADD CONSTRAINT late CHECK (id <= 1000 OR {check})".encode())
    connection.execute("INSERT INTO people SELECT n, 'late ' || n FROM generate_series(1001, 1020) n")
    sync: Sync = make(stream, policies=DLQ)
    succeeded(sync.run())
    assert sync.letters.count() == 10
    return sync


@pytest.mark.parametrize("key", [[], ["id"]])
def test_replayed_letters_are_written_once_and_the_cursor_is_unchanged(
    make: Any, connection: Connection, tmp_path: Path, key: list[str]
) -> None:
    stream = {**STREAM, "key": key}
    sync = refused_rows(make, connection, stream)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    assert replay(sync, tmp_path) == Replayed(replayed=10)
    assert sync.letters.count() == 0 and same(connection)
    assert replay(sync, tmp_path) == Replayed() and same(connection)
    assert succeeded(make(stream).run()).streams[0].read.records_read == 0


def test_rows_refused_again_stay_dead_letters_with_one_more_attempt(
    make: Any, connection: Connection, tmp_path: Path
) -> None:
    sync = refused_rows(make, connection, STREAM)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    connection.execute("ALTER TABLE landing.people ADD CONSTRAINT late CHECK (id <> 1004)")
    assert replay(sync, tmp_path) == Replayed(replayed=10, returned=1)
    [letter] = sync.letters
    assert (str(letter["row"]["id"]), letter["attempts"], letter["stream"]) == ("1004", 2, "public.people")
    assert replay(sync, tmp_path) == Replayed(replayed=1, returned=1)
    assert [each["attempts"] for each in sync.letters] == [3]
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    replay(sync, tmp_path)
    assert same(connection) and sync.letters.count() == 0


def test_replayed_letters_of_a_full_refresh_are_appended(make: Any, connection: Connection, tmp_path: Path) -> None:
    sync = refused_rows(make, connection, {"write": "append"}, check="id > 1010 OR id IS NULL")
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late; TRUNCATE landing.people")
    assert replay(sync, tmp_path) == Replayed(replayed=10)
    assert connection.execute("SELECT count(*), min(id) FROM landing.people").fetchall() == [(10, 1001)]


def test_a_replay_after_a_lost_state_goes_above_the_generation_of_the_destination(
    make: Any, connection: Connection, tmp_path: Path
) -> None:
    sync = refused_rows(make, connection, STREAM)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    ids = [letter["id"] for letter in sync.letters]
    assert replay(sync, tmp_path, id=ids[0]) == Replayed(replayed=1)
    for file in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        file.unlink()
    assert replay(sync, tmp_path) == Replayed(replayed=9) and same(connection)


def test_only_chosen_letters_are_replayed(make: Any, connection: Connection, tmp_path: Path) -> None:
    sync = refused_rows(make, connection, STREAM)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    first = next(iter(sync.letters))
    assert replay(sync, tmp_path, id=first["id"]) == Replayed(replayed=1)
    assert sync.letters.count() == 9
    assert connection.execute("SELECT count(*) FROM landing.people WHERE id > 1000").fetchall() == [(11,)]


def test_letters_without_a_readable_row_or_stream_are_refused(
    make: Any, connection: Connection, tmp_path: Path
) -> None:
    sync = make(STREAM)
    succeeded(sync.run())
    sync.letters.add("public.people", "source", pa.record_batch({"line": ["?"]}), ConnectorError.data("BAD", "?"), "r")
    sync.letters.add("gone", "destination", pa.record_batch({"n": [1]}), ConnectorError.data("BAD", "?"), "r")
    assert replay(sync, tmp_path) == Replayed(refused=2)
    assert sync.letters.count() == 2 and same(connection)


def test_replay_into_files_adds_a_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "people.csv").write_text("id,name\n1,a\n2,b\n")
    text = {
        "name": "copy",
        "source": {"connector": "file", "path": str(tmp_path / "in"), "format": "csv"},
        "destination": {"connector": "file", "path": str(tmp_path / "out"), "format": "jsonl"},
        "streams": [{"name": "in"}],
    }
    sync = Sync(SyncDef.model_validate(text), tmp_path, tmp_path / ".gauss")
    succeeded(sync.run())
    late = pa.record_batch({"id": [3], "name": ["c"]})
    sync.letters.add("in", "destination", late, ConnectorError.data("BAD", "?"), "copy#1")
    assert replay(sync, tmp_path) == Replayed(replayed=1)

    def rows() -> list[str]:
        return sorted(line for path in (tmp_path / "out" / "in").glob("*.jsonl") for line in path.open())

    assert len(rows()) == 3 and '"c"' in rows()[2] and sync.letters.count() == 0
    succeeded(sync.run())
    assert len(rows()) == 2  # a full refresh replaces them all


def test_replay_is_refused_while_the_sync_runs(make: Any, connection: Connection, tmp_path: Path) -> None:
    sync = refused_rows(make, connection, STREAM)
    store = sync.store()
    run = start_run(store, "people")
    with pytest.raises(Rejected, match="is running"):
        replay(sync, tmp_path)
    run.end("succeeded")
    store.close()
    assert sync.letters.count() == 10


def test_letters_are_kept_if_the_destination_fails(make: Any, connection: Connection, tmp_path: Path) -> None:
    sync = refused_rows(make, connection, STREAM)
    connection.execute("ALTER TABLE landing.people ALTER name TYPE int USING 1")
    policies = {"schema_evolution": {"type_change": "fail"}}
    with pytest.raises(ConnectorError, match="schema of the stream has changed"):
        replay(make(STREAM, policies=policies), tmp_path)
    assert sync.letters.count() == 10
    assert not ReplayJournal(tmp_path / ".gauss" / "connect" / "replays", "people").exists


@pytest.mark.parametrize("is_asked", [True, False])
def test_commit_without_an_answer_is_not_repeated(
    make: Any, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    sync = refused_rows(make, connection, STREAM)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    cut = ConnectorError.transient_db("CUT", "the connection was cut", commit_state=CommitState.AFTER_COMMIT_UNKNOWN)

    class Cut(Attempt):
        def __call__(self) -> Outcome:
            assert super().__call__().error is None
            if not is_asked:  # nor can the destination be asked now
                monkeypatch.setattr(PostgresDestination, "watermark", self.away)
            return Outcome(error=cut)

        def away(self, *_: object) -> None:
            raise cut

    monkeypatch.setattr(replaying, "Attempt", Cut)
    if is_asked:
        assert replay(sync, tmp_path) == Replayed(replayed=10)
    else:
        with pytest.raises(ConnectorError, match="was cut"):
            replay(sync, tmp_path)
        assert sync.letters.count() == 10
        monkeypatch.undo()
        assert replay(sync, tmp_path) == Replayed(replayed=10)
    assert same(connection) and sync.letters.count() == 0


def test_uncommitted_chunk_is_written_by_the_next_replay(
    make: Any, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = refused_rows(make, connection, STREAM)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    monkeypatch.setattr(replaying, "CHUNK_ROWS", 4)
    connection.execute(
        "CREATE FUNCTION no() RETURNS trigger AS 'BEGIN RAISE SQLSTATE ''53100''; END' LANGUAGE plpgsql"  # disk full
    )
    connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON landing.people FOR EACH ROW WHEN (NEW.id = 1006) EXECUTE FUNCTION no()"
    )
    with pytest.raises(ConnectorError):
        replay(sync, tmp_path)
    assert sync.letters.count() == 6  # the first chunk is done
    connection.execute("DROP TRIGGER no ON landing.people; DROP FUNCTION no()")
    assert replay(sync, tmp_path) == Replayed(replayed=6) and same(connection)


KILLED = """
import json, os, signal, sys
from pathlib import Path
from gauss.config.syncs import SyncDef
from gauss.connect import replay
from gauss.connect.letters import SyncLetters
from gauss.connect.replay_journal import ReplayJournal

place, folder, text = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
replay.CHUNK_ROWS = 4

def kill(*_): os.kill(os.getpid(), signal.SIGKILL)

calls = 0
def second(known):
    def call(*given):
        global calls
        calls += 1
        if calls == 2:
            kill()
        return known(*given)
    return call

if place == "written":      # the destination has committed, nobody knows
    ReplayJournal.end_chunk = second(ReplayJournal.end_chunk)
elif place == "begun":
    ReplayJournal.begin_chunk = second(ReplayJournal.begin_chunk)
elif place == "removing":
    SyncLetters.remove = kill
elif place == "removed":
    ReplayJournal.remove = kill
replay.LetterReplay(SyncDef.model_validate_json(text), folder, folder / ".gauss")(lambda *_: True)
"""


@pytest.mark.fault
@pytest.mark.parametrize("place", ["begun", "written", "removing", "removed"])
def test_killed_replay_is_completed_by_the_next_one(
    make: Any, connection: Connection, tmp_path: Path, place: str
) -> None:
    sync = refused_rows(make, connection, STREAM)
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    connection.execute("ALTER TABLE landing.people ADD CONSTRAINT late CHECK (id NOT IN (1002, 1006, 1009))")
    text = sync.definition.model_dump_json()
    done = subprocess.run([sys.executable, "-c", KILLED, place, str(tmp_path), text], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert sync.letters.count() == (3 if place == "removed" else 10)
    replay(sync, tmp_path)
    assert sorted(str(letter["row"]["id"]) for letter in sync.letters) == ["1002", "1006", "1009"]
    counts = "SELECT count(*), count(DISTINCT id) FROM landing.people WHERE id BETWEEN 1001 AND 1010"
    assert connection.execute(counts.encode()).fetchall() == [(7, 7)]
    connection.execute("ALTER TABLE landing.people DROP CONSTRAINT late")
    replay(sync, tmp_path)
    assert same(connection) and sync.letters.count() == 0
