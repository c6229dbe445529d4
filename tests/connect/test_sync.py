"""Whole syncs with custom connectors: classes in a file beside the config."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from gauss.connect.runs import list_runs
from gauss.connect.state import StateStore
from gauss.connect.sync import Sync, SyncResult
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.model.errors import PluginError, Rejected
from helpers.sync_world import World
from helpers.waiting import wait_until


def test_incremental_stream_resumes_where_the_last_run_ended(world: World) -> None:
    assert world.sync().run().status == "succeeded"
    assert world.lines() == list(range(1, 36))
    assert world.sync(source={"rows": 42}).run().status == "succeeded"
    assert world.lines() == list(range(1, 43))
    assert world.reads() == [1, 36]


def test_full_refresh_reads_everything_each_time_and_keeps_no_cursor(world: World) -> None:
    for _ in range(2):
        result = world.sync(streams="*", max_parallel_streams=2).run()
        assert {each.stream: each.status for each in result.streams} == {"a": "succeeded", "b": "succeeded"}
    assert world.reads("a") == world.reads("b") == [1, 1]
    assert len(world.lines("b")) == 70


def test_transient_error_is_retried_from_the_safe_cursor(world: World) -> None:
    (world.folder / "fail").write_text("2")
    result = world.sync(destination={"fails": "transient_db"}, limits={"max_inflight_batches": 1}).run()
    assert result.status == "succeeded" and world.lines() == list(range(1, 36))
    assert len(world.reads()) == 3
    assert [each["event"] for each in world.events].count("retry") == 2
    [told] = [each for each in world.events if each["event"] == "metrics"]
    assert told["metrics"] == [{"connector": "host", "name": "retries", "kind": "counter", "value": 2}]


def test_rows_of_all_attempts_are_counted(strange: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.connect.stream_job.pause_s", lambda *_: 0.01)
    destination = {"connector": "strange:Tiring"}
    result = strange.sync(source={"connector": "strange:Counting"}, destination=destination).run()
    assert result.status == "succeeded" and strange.lines() == list(range(1, 36)) and len(strange.reads()) == 4
    [stream] = result.streams
    assert (stream.read.records_read, stream.write.records_written) == (35, 35)


@pytest.mark.parametrize("category", ["config", "auth", "permission", "internal", "schema"])
def test_error_that_is_not_retryable_ends_the_stream_at_once(world: World, category: str) -> None:
    (world.folder / "fail").write_text("9")
    result = world.sync(destination={"fails": category}).run()
    assert result.status == "failed" and len(world.reads()) == 1
    assert result.error is not None and result.error.category == category
    assert world.events[-1]["error"]["category"] == category


def test_stream_fails_after_too_many_attempts_without_progress(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.connect.stream_job.pause_s", lambda *_: 0.01)
    (world.folder / "fail").write_text("99")
    result = world.sync(max_attempts=3).run()
    assert result.status == "failed" and len(world.reads()) == 3


@pytest.mark.parametrize(
    ("policy", "status", "letters"), [("fail", "failed", 0), ("skip", "succeeded", 0), ("dlq", "succeeded", 2)]
)
def test_bad_rows_are_skipped_kept_or_end_the_stream(world: World, policy: str, status: str, letters: int) -> None:
    sync = world.sync(destination={"bad": [7, 23]}, policies={"on_data_error": policy})
    result = sync.run()
    assert result.status == status
    assert [letter["row"] for letter in sync.letters] == [{"n": 7}, {"n": 23}][:letters]
    if status == "succeeded":
        assert world.lines() == [n for n in range(1, 36) if n not in (7, 23)]
    assert result.streams[0].letters == letters


def test_letters_of_a_batch_cost_one_sync_of_the_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    known = os.fsync

    def sync_file(file: int) -> None:
        synced.append(file)
        known(file)

    monkeypatch.setattr("gauss.connect.letters.os.fsync", sync_file)
    sync = world.sync(source={"rows": 200}, destination={"bad": list(range(1, 201))}, policies={"on_data_error": "dlq"})
    assert sync.run().status == "succeeded" and sync.letters.count() == 200
    batches = sum(event["event"] == "checkpoint" for event in world.events)
    assert 0 < len(synced) <= batches + 1 < 50


def test_bad_row_read_again_after_a_failure_is_one_dead_letter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.connect.stream_job.pause_s", lambda *_: 0.01)
    bad = {"bad": [3, 7, 23], "fail_behind_bad": True}
    sync = world.sync(destination=bad, policies={"on_data_error": "dlq"})
    result = sync.run()
    assert result.status == "succeeded" and len(world.reads()) == 3
    assert [letter["row"]["n"] for letter in sync.letters] == [3, 7, 23] and result.streams[0].letters == 3
    assert world.lines() == [n for n in range(1, 36) if n not in (3, 7, 23)]


def run_in_thread(sync: Sync) -> tuple[threading.Thread, list[SyncResult]]:
    done: list[SyncResult] = []
    thread = threading.Thread(target=lambda: done.append(sync.run()))
    thread.start()
    return thread, done


def test_drained_run_keeps_its_rows_and_the_next_one_resumes(world: World) -> None:
    sync = world.sync(source={"rows": 100_000, "pause": 0.01})
    thread, done = run_in_thread(sync)
    wait_until(lambda: len(world.lines()) > 50)
    sync.drain()
    thread.join(30)
    assert done[0].status == "cancelled"
    world.sync(source={"rows": len(world.lines()) + 5}).run()
    assert world.lines() == list(range(1, len(world.lines()) + 1))


def test_run_past_its_deadline_fails(world: World) -> None:
    result = world.sync(source={"rows": 100_000, "pause": 0.01}, deadline="300ms").run()
    assert result.status == "failed" and result.error is not None and result.error.code == "DEADLINE"


def test_second_run_is_refused_while_the_first_is_alive(world: World) -> None:
    sync = world.sync(source={"rows": 100_000, "pause": 0.01})
    thread, done = run_in_thread(sync)
    wait_until(lambda: len(world.lines()) > 5)
    with pytest.raises(Rejected, match=f"process {os.getpid()} on "):
        world.sync().run()
    sync.break_off(ConnectorError.internal("CANCELLED", "enough"))
    thread.join(30)
    assert done[0].status == "failed"


def test_events_report_start_progress_checkpoints_and_each_stream(world: World) -> None:
    assert world.sync(source={"pause": 0.3}).run().status == "succeeded"
    kinds = [each["event"] for each in world.events]
    assert kinds[0] == "start" and kinds[-1] == "stream" and "progress" in kinds
    assert [each["id"] for each in world.events if each["event"] == "checkpoint"][-1] == 4
    last = world.events[-1]
    assert (last["status"], last["records_read"], last["records_written"]) == ("succeeded", 35, 35)


def test_store_contains_cursors_and_runs(world: World) -> None:
    sync = world.sync()
    sync.run()
    store = sync.store()
    found = store.cursor("numbers", "a")
    assert found is not None and found.value == Int64Cursor(35)
    [run] = list_runs(store, "numbers")
    assert run["status"] == "succeeded"
    assert run["streams"] == [{"stream": "a", "status": "succeeded", "rows": 35, "bytes": 0}]
    store.close()


@pytest.mark.parametrize(
    ("streams", "words"),
    [
        ([{"name": "c"}], 'no stream "c"'),
        ([{"name": "aa"}], "did you mean"),
        ([{"name": "a", "mode": "cdc"}], "can't be read by cdc"),
        ([{"name": "a", "mode": "incremental", "cursor": "m"}], 'no field "m"'),
        ([{"name": "a", "key": ["k"]}], 'no field "k"'),
        ([{"name": "a"}, {"name": "a"}], "named twice"),
    ],
)
def test_streams_that_the_source_does_not_have_are_refused(world: World, streams: Any, words: str) -> None:
    result = world.sync(streams=streams).run()
    assert result.status == "failed" and result.error is not None and words in result.error.message


def test_check_and_discover_open_and_close_without_a_run(world: World) -> None:
    sync = world.sync()
    assert {role: found.status for role, found in sync.check().items()} == {
        "source": "success",
        "destination": "success",
    }
    assert [each.name for each in sync.discover().streams] == ["a", "b"]
    assert [change.stream for change in sync.dry_run()] == ["a"]
    assert not (world.folder / ".gauss").exists()
    with pytest.raises(ConnectorError, match="password is wrong"):
        world.sync(source={"refuses": True}).check()


@pytest.mark.parametrize("name", ["nowhere", "sample:Nothing", "sample:not_a_class", "sample:Lines", "nomodule:X"])
def test_invalid_connector_is_refused(world: World, name: str) -> None:
    with pytest.raises(PluginError):
        world.sync(source={"connector": name})


def test_retry_pause_ends_when_the_run_is_drained(world: World) -> None:
    (world.folder / "fail").write_text("99")
    sync = world.sync(destination={"fails": "rate_limit"})
    thread, done = run_in_thread(sync)
    wait_until(lambda: any(each["event"] == "retry" for each in world.events))
    began = time.monotonic()
    sync.drain()
    thread.join(30)
    assert time.monotonic() - began < 4 and done[0].status in ("failed", "cancelled")


STRANGE = '''
import time
from pathlib import Path
import sample
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, WriteSummary

class Counting(sample.Numbers):
    """Says in its checkpoints how many rows are before them."""
    def run_read(self, stream):
        checkpoint, last = self.host.checkpoint, stream.cursor_info.last_value
        def counted(made):
            rows = made.cursor_value.value - (last.value if last else 0)
            checkpoint(Checkpoint(made.id, made.kind, made.stream, "n", made.cursor_value, rows, 8 * rows))
        self.host.checkpoint = counted
        return super().run_read(stream)

class Tiring(sample.Lines):
    """Fails behind each batch but the last."""
    def run_write(self, stream):
        checkpoint = self.host.checkpoint
        def failing(made):
            checkpoint(made)
            if len(Path(self.config["folder"], "a.txt").read_text().split()) < 35:
                raise ConnectorError.transient_db("TIRED", "enough")
        self.host.checkpoint = failing
        return super().run_write(stream)

class Stuck(sample.Numbers):
    def run_read(self, stream):
        time.sleep(600)

class StuckAtOnce(sample.Numbers):
    def discover(self):
        time.sleep(600)

class Broken(sample.Lines):
    """Commits one batch and fails."""
    def run_write(self, stream):
        Path(self.config["folder"], "writes").open("a").write("x")
        self.host.next_batch()
        self.host.checkpoint(Checkpoint(1, CheckpointKind.DEST, stream.stream_name))
        raise ConnectorError.transient_db("GONE", "the disk is away")

class Unfinished(sample.Lines):
    """Manages its table, but does not know whether its rows have become visible."""
    def landed(self, schema): return schema
    def describe(self, stream): return None
    def statements(self, stream, live, wanted): return []
    def prepare(self, stream, statements, generation): Path(self.config["folder"], "prepared").open("a").write("x")
    def watermark(self, stream, partition): return None
    def opaque_kind(self, stream, wanted): return ""
    def finish(self, stream, generation):
        Path(self.config["folder"], "finished").open("a").write(f"{generation}\\n")
        raise ConnectorError.transient_network("CUT", "no answer", commit_state="after_commit_unknown")
'''


@pytest.fixture
def strange(world: World) -> Iterator[World]:
    import sys

    (world.folder / "strange.py").write_text(STRANGE)
    sys.modules.pop("strange", None)
    yield world
    sys.modules.pop("strange", None)


@pytest.mark.parametrize("source", ["Stuck", "StuckAtOnce"])
def test_connector_that_does_not_end_is_abandoned_after_the_deadline(
    strange: World, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.connect.sync.GRACE_S", 0.2)
    thread, done = run_in_thread(strange.sync(source={"connector": f"strange:{source}"}, deadline="200ms"))
    thread.join(20)
    assert done and done[0].status == "failed" and done[0].error is not None and done[0].error.code == "DEADLINE"
    assert strange.sync().run().status == "succeeded"


def test_full_refresh_that_always_fails_after_a_commit_ends_with_an_error(
    strange: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.connect.stream_job.pause_s", lambda *_: 0.01)
    destination = {"connector": "strange:Broken"}
    thread, done = run_in_thread(strange.sync(destination=destination, streams=[{"name": "a"}], max_attempts=3))
    thread.join(20)
    assert done and done[0].status == "failed"
    assert len((strange.folder / "writes").read_text()) == 3


def test_rows_that_may_be_committed_are_not_written_by_another_attempt(
    strange: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.connect.stream_job.pause_s", lambda *_: 0.01)
    destination = {"connector": "strange:Unfinished"}
    result = strange.sync(destination=destination, streams=[{"name": "a", "write": "append"}], max_attempts=3).run()
    assert result.status == "failed" and result.error is not None and result.error.code == "CUT"
    finished = (strange.folder / "finished").read_text().split()
    assert len(finished) == 3 and len(set(finished)) == 1
    assert (strange.folder / "prepared").read_text() == "x"


def test_queued_streams_do_not_start_after_a_stop(world: World) -> None:
    streams = [{"name": name, "mode": "incremental", "cursor": "n"} for name in ("a", "b")]
    sync = world.sync(source={"rows": 100_000, "pause": 0.01}, streams=streams)
    thread, done = run_in_thread(sync)
    wait_until(lambda: len(world.lines()) > 5)
    sync.drain()
    thread.join(30)
    assert [each.status for each in done[0].streams] == ["cancelled", "cancelled"]
    assert not (world.folder / "b.reads").exists()


def test_brief_failure_of_the_state_store_is_a_transient_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.connect.stream_job.pause_s", lambda *_: 0.01)
    store, failures = StateStore.cursor, [sa.exc.OperationalError("SELECT", {"value": "secret"}, OSError("gone"))]

    def cursor(self: StateStore, sync: str, stream: str) -> Any:
        with self.transaction():
            if failures:
                raise failures.pop()
        return store(self, sync, stream)

    monkeypatch.setattr(StateStore, "cursor", cursor)
    assert world.sync().run().status == "succeeded" and world.lines() == list(range(1, 36))
    [retry] = [each for each in world.events if each["event"] == "retry"]
    assert retry["code"] == "UNAVAILABLE" and "secret" not in retry["error"]
