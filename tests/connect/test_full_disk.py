"""State and dead letters of syncs on a full disk: typed errors, and writes succeed once there is space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.connect.letters import SyncLetters
from gauss.connect.replay_journal import ReplayJournal
from gauss.connect.runs import list_runs, start_run
from gauss.connect.state import StateStore, StreamCursor
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.model.errors import DiskFull
from helpers.disks import fill, small_file_system

pytestmark = pytest.mark.fault
BALLAST = "ballast"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "small", "1m") as made:
        yield made


def test_state_is_readable_on_a_full_disk_and_writable_once_there_is_space(disk: Path) -> None:
    file = disk / "connect" / "state.db"
    store = StateStore(file)
    run = start_run(store, "people")
    store.put("people", "key", b"old")
    fill(disk / BALLAST)
    with pytest.raises(DiskFull, match="the disk is full") as caught:
        for _ in range(100):  # pages that the log of the database has already can still be used
            store.put("people", "key", bytes(4096))
    assert str(file) in caught.value.message and caught.value.retryable
    with pytest.raises(DiskFull):
        store.move("people", "s", StreamCursor(1, Int64Cursor(5), 1, 0), "run")
    with pytest.raises(DiskFull):
        start_run(store, "others")
    assert store.cursor("people", "s") is None and store.get("people", "key") is not None
    run.end("failed", "no space")  # only logged: the result of the run counts
    (disk / BALLAST).unlink()
    store.move("people", "s", StreamCursor(1, Int64Cursor(5), 1, 0), "run")
    start_run(store, "others").end("succeeded")
    assert [row["status"] for row in list_runs(store, "others")] == ["succeeded"]
    store.close()


def test_store_that_cannot_be_created_reports_the_full_disk(disk: Path) -> None:
    fill(disk / BALLAST)
    for file in (disk / "state.db", disk / "new" / "folder" / "state.db"):
        with pytest.raises(DiskFull, match="the disk is full"):
            StateStore(file)
    (disk / BALLAST).unlink()
    StateStore(disk / "state.db").close()


def test_dead_letters_are_complete_and_unique_after_a_full_disk(disk: Path) -> None:
    letters = SyncLetters(disk, "people")
    rows = pa.record_batch({"text": pa.array([f"{number}".ljust(3000, "x") for number in range(20)])})
    ids = [f"id {number}" for number in range(20)]
    error = ConnectorError.data("BAD", "bad")
    letters.add("s", "source", rows.slice(0, 1), error, "run", ids=ids[:1])
    fill(disk / BALLAST)
    with pytest.raises(DiskFull, match="the disk is full") as caught:
        letters.add("s", "source", rows, error, "run", ids=ids)
    assert str(disk) in caught.value.message
    (disk / BALLAST).unlink()
    letters.add("s", "source", rows, error, "run", ids=ids)
    assert [letter["id"] for letter in letters] == ids


def test_a_replay_goes_on_after_a_full_disk_where_it_was(disk: Path) -> None:
    journal = ReplayJournal(disk / "replays", "people")
    journal.begin([["a", "b"], ["c"]])
    journal.begin_chunk(0)
    fill(disk / BALLAST)
    back = [{"id": "b", "row": {"text": "x" * 8192}}]
    with pytest.raises(DiskFull, match="the disk is full") as caught:
        journal.come_back(0, back)
    assert str(disk / "replays" / "people.jsonl") in caught.value.message
    with pytest.raises(DiskFull):
        ReplayJournal(disk / "more" / "replays", "others").begin([["a"] * 4096])
    (disk / BALLAST).unlink()
    found = ReplayJournal(disk / "replays", "people")
    assert found.chunks == [["a", "b"], ["c"]] and not found.done
    found.begin_chunk(0)
    found.come_back(0, back)
    found.end_chunk(0)
    again = ReplayJournal(disk / "replays", "people")
    assert [letter["id"] for letter in again.back()] == ["b"] and again.done_ids() == {"a", "b"}
