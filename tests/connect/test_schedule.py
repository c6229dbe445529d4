"""Scheduled syncs, with small programs instead of `gauss sync`."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.api.syncs import describe, sync_metrics
from gauss.config.syncs import SyncDef
from gauss.connect.runs import StreamRows, start_run
from gauss.connect.schedule import SyncSchedule
from gauss.connect.scheduled import ScheduledSync, next_start
from gauss.connect.state import StateStore
from gauss.model.errors import NotFound, Rejected
from gauss.process.group import ProcessGroup
from helpers.waiting import stays, wait_until

HOUR = 3_600_000
Start = Callable[..., SyncSchedule]
MISSED = {"connector": "source-x", "name": "records_missed", "kind": "counter", "value": 3, "labels": {"1": "é"}}
DONE: list[dict[str, Any]] = [
    {"event": "start", "run": "copy#1"},
    {"event": "progress", "stream": "a", "records_written": 3, "bytes_written": 30},
    {"event": "metrics", "stream": "a", "metrics": [{**MISSED, "name": "records-missed", "value": 5}, MISSED]},
    {"event": "stream", "stream": "a", "status": "succeeded", "records_written": 7, "bytes_written": 70},
    {"event": "result", "status": "succeeded"},
]
FAILED: list[dict[str, Any]] = [
    {"event": "error", "stream": "a", "error": {"message": "the disk is away"}},
    {"event": "result", "status": "failed"},
]


def printing(*events: dict[str, Any], then: str = "") -> str:
    return f"import sys, time; sys.stdout.write({''.join(json.dumps(each) + chr(10) for each in events)!r}); {then}"


WAITING = (
    "import signal, sys, time\n"
    'def stop(*_): print(\'{"event": "result", "status": "cancelled"}\', flush=True); sys.exit(0)\n'
    'signal.signal(signal.SIGTERM, stop); print(\'{"event": "start", "run": "copy#1"}\', flush=True)\n'
    "time.sleep(600)"
)
DEAF = WAITING.replace("signal.SIGTERM, stop", "signal.SIGTERM, signal.SIG_IGN")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "run").mkdir()
    (tmp_path / "logs").mkdir()
    group = ProcessGroup.open(tmp_path / "run", tmp_path / "logs")
    made: list[SyncSchedule] = []

    def run(program: str, every: str | None = None, *, begin: bool = True, **more: Any) -> SyncSchedule:
        side = {"connector": "file", "path": "x", "format": "csv"}
        text = {"name": "copy", "source": side, "destination": side, "every": every, **more}
        command = [sys.executable, "-S", "-c", program]
        made.append(SyncSchedule([SyncDef.model_validate(text)], lambda _: command, tmp_path, group))
        if begin:
            made[-1].start()
        return made[-1]

    yield run
    now = threading.Event()
    now.set()
    for schedule in made:
        schedule.stop(now, 0)
    group.close()


def ended(sync: ScheduledSync, count: int = 1) -> None:
    wait_until(lambda: sum(sync.runs.values()) >= count, what=lambda: sync.last)


@pytest.mark.parametrize(
    ("every", "last", "found"),
    [
        (None, 5, None),
        (HOUR, None, 1_000),
        (HOUR, 5, HOUR + 5),
        (HOUR, 100 * HOUR, 101 * HOUR),
        ("0 * * * *", None, HOUR),
        ("0 * * * *", HOUR + 1, 2 * HOUR),
        ("30 * * * *", 2 * HOUR, 2 * HOUR + HOUR // 2),
    ],
)
def test_sync_is_due_at_its_first_time_after_the_last_start(
    every: int | str | None, last: int | None, found: int | None
) -> None:
    assert next_start(every, last, 1_000) == found


def test_sync_without_a_run_starts_at_once_and_then_waits(start: Start) -> None:
    sync = start(printing(*DONE), "1h").get("copy")
    ended(sync)
    assert sync.runs == {"succeeded": 1} and sync.totals() == (7, 70) and sync.failure == ""
    assert sync.last is not None and (sync.last.run, sync.last.rows) == ("copy#1", 7)
    due = sync.due_ms()
    assert due is not None and due == sync.last.started_ms + HOUR
    stays(lambda: sum(sync.runs.values()) == 1 and not sync.is_running(), 0.5)


def test_metrics_of_connectors_are_added_up_over_runs_with_one_sample_for_each_name(start: Start) -> None:
    schedule = start(printing(*DONE))
    sync = schedule.get("copy")
    for number in (1, 2):
        sync.run_now()
        ended(sync, number)
    [stream] = describe(sync)["streams"]
    assert stream["metrics"][1] == MISSED
    samples = [each for each in sync_metrics(schedule) if each["name"] == "gauss_sync_connector_records_missed_total"]
    labels = {"_1": "é", "sync": "copy", "stream": "a", "connector": "source-x"}
    assert [(each["labels"], each["value"]) for each in samples] == [(labels, 6)]


def test_output_of_a_connector_is_not_parsed_as_an_event(start: Start) -> None:
    odd: list[dict[str, Any]] = [{"event": "start"}, {"event": "progress", "stream": ["a"]}, {"event": "error"}]
    sync = start(printing(*odd, *DONE), "1h").get("copy")
    ended(sync)
    assert sync.runs == {"succeeded": 1} and sync.failure == ""


def test_times_missed_during_a_run_are_made_up_once(start: Start) -> None:
    sync = start(printing({"event": "start", "run": "r"}, then=f"time.sleep(1); {printing(*DONE)}"), "10ms").get("copy")
    ended(sync, 2)
    first = sync.last
    assert first is not None
    # Some hundred times have passed: those runs follow each other, and none waits behind the other.
    wait_until(lambda: sync.last is not first)
    assert sync.last is not None and sync.last.started_ms >= first.started_ms + 1_000


@pytest.mark.parametrize(("hours", "runs"), [(2, True), (0, False)])
def test_last_start_by_another_process_decides_the_next_time(
    start: Start, tmp_path: Path, hours: int, runs: bool
) -> None:
    import sqlalchemy as sa

    from gauss.connect.state_schema import RUNS

    store = StateStore(tmp_path / "connect" / "state.db")
    start_run(store, "copy").end("succeeded")
    earlier = time.time_ns() // 1_000_000 - hours * HOUR
    with store.engine.begin() as connection:
        connection.execute(sa.update(RUNS).values(started_ms=earlier))
    start_run(store, "copy").end("edited")  # a cursor that was set is no run
    store.close()
    sync = start(printing(*DONE), "1h").get("copy")
    if runs:
        ended(sync)
    else:
        stays(lambda: not sync.is_running() and not sync.runs, 0.5)


def test_failure_is_shown_until_a_run_succeeds(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "good"
    program = f"import os\nif os.path.exists({str(flag)!r}): {printing(*DONE)}\nelse: {printing(*FAILED)}"
    schedule = start(program, "200ms")
    wait_until(schedule.reasons)
    assert schedule.reasons() == ['sync "copy" failed: a: the disk is away']
    flag.touch()
    wait_until(lambda: not schedule.reasons())
    assert schedule.get("copy").runs["succeeded"] >= 1


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise SystemExit(9)", "exit code 9"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import json; print(json.dumps({'error': {'message': 'no such file'}}, indent=2)); exit(1)", "no such file"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code 137"),
    ],
)
def test_process_that_ends_without_a_result_is_a_failure_with_its_reason(start: Start, program: str, why: str) -> None:
    sync = start(program, "1h").get("copy")
    ended(sync)
    assert sync.runs == {"failed": 1} and why in sync.failure


def test_sync_without_a_schedule_runs_on_request_and_never_twice_at_once(start: Start) -> None:
    schedule = start(WAITING)
    sync = schedule.get("copy")
    assert sync.due_ms() is None and not sync.is_running()
    wait_until(sync._thread.is_alive)
    sync.run_now()
    with pytest.raises(Rejected, match="is running"):
        sync.run_now()
    wait_until(lambda: sync.last is not None and sync.last.run)
    with pytest.raises(Rejected, match="is running"):
        sync.run_now()
    with pytest.raises(NotFound, match='no sync "nobody"'):
        schedule.get("nobody")


def test_sync_that_runs_in_another_process_is_not_started(start: Start, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "connect" / "state.db")
    run = start_run(store, "copy")
    sync = start(printing(*DONE), "10ms").get("copy")
    stays(lambda: not sync.runs and not sync.is_running(), 0.5)
    with pytest.raises(Rejected, match="process"):
        sync.run_now()
    run.end("succeeded")
    store.close()
    ended(sync)


def test_stop_drains_a_running_sync(start: Start) -> None:
    schedule = start(WAITING, "1h")
    sync = schedule.get("copy")
    wait_until(lambda: sync.last is not None and sync.last.run)
    assert schedule.stop(threading.Event(), 60) == []
    assert sync.runs == {"cancelled": 1} and schedule.reasons() == []


@pytest.mark.fault
def test_sync_that_ignores_a_stop_is_killed(start: Start) -> None:
    schedule = start(DEAF, "1h")
    sync = schedule.get("copy")
    wait_until(lambda: sync.last is not None and sync.last.run)
    assert schedule.stop(threading.Event(), 0.3) == ["copy"]
    assert sync.join(60) and sync.runs == {"cancelled": 1}


def test_last_run_of_another_process_is_shown_with_its_rows(start: Start, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "connect" / "state.db")
    written = [StreamRows("a", "succeeded", 7, 70), StreamRows("b", "failed", 3, 30)]
    start_run(store, "copy").end("failed", "the disk is away", written)
    found = describe(start(printing(*DONE), begin=False).get("copy"))
    assert (found["last"]["status"], found["last"]["rows"], found["last"]["bytes"]) == ("failed", 10, 100)
    shown = {each["name"]: (each["status"], each["rows"]) for each in found["streams"]}
    assert shown == {"a": ("succeeded", 7), "b": ("failed", 3)}
    store.close()
