"""Runs of a sync: one at a time, each with a generation; a dead one is taken over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from gauss.connect.runs import LAPSE_S, Me, SyncRun, check_run, list_runs, start_run
from gauss.connect.state import StateStore
from gauss.connect.state_schema import RUNS
from gauss.model.errors import Fenced, Rejected
from gauss.process.identity import boot_id
from helpers.waiting import wait_until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(file: Path) -> Iterator[StateStore]:
    made = StateStore(file)
    yield made
    made.close()


def test_runs_have_increasing_generations_and_are_listed(store: StateStore) -> None:
    for number in (1, 2, 3):
        run = start_run(store, "people")
        assert run.generation == number
        run.end("succeeded" if number < 3 else "failed", "no disk" if number == 3 else "")
        run.end("failed")
    other = start_run(store, "orders")
    other.end("succeeded")
    assert [(row["generation"], row["status"]) for row in list_runs(store, "people")] == [
        (3, "failed"), (2, "succeeded"), (1, "succeeded"),
    ]  # fmt: skip
    assert {row["sync"] for row in list_runs(store)} == {"people", "orders"}


def test_second_run_is_refused_with_pid_and_host_of_the_first(store: StateStore) -> None:
    first = start_run(store, "people")
    with pytest.raises(Rejected) as caught:
        start_run(store, "people")
    assert f"process {os.getpid()} on {Me.here().host}" in caught.value.message
    start_run(store, "orders").end("succeeded")
    first.end("succeeded")
    start_run(store, "people").end("succeeded")


def test_killed_run_is_taken_over_at_once_and_its_late_writes_are_fenced(store: StateStore, file: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from gauss.connect.state import StateStore;"
        "from gauss.connect.runs import start_run; start_run(StateStore(Path(sys.argv[1])), 'people');"
        "print('up', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        with pytest.raises(Rejected, match=f"process {child.pid} "):
            start_run(store, "people")
        assert list_runs(store)[0]["status"] == "running"
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert list_runs(store)[0]["status"] == "lost"
    mine = start_run(store, "people")
    assert mine.generation == 2
    check_run(store, mine)
    late = SyncRun(store, "people", 1)
    with pytest.raises(Fenced):
        check_run(store, late)
    late.end("succeeded")
    assert [row["status"] for row in list_runs(store)] == ["running", "lost"]
    mine.end("succeeded")


HERE = Me.here()


@pytest.mark.parametrize(
    "away",
    [
        Me("elsewhere", "boot", 1, 1),
        Me(HERE.host, "boot", 1, 1),
        Me(HERE.host, f"{boot_id()} 1", HERE.pid, HERE.process_start + 1),
    ],
    ids=["another machine", "one of the same name", "another container"],
)
def test_run_elsewhere_is_alive_until_its_heartbeat_expires(store: StateStore, away: Me) -> None:
    start_run(store, "people", away)
    with pytest.raises(Rejected, match=f"process {away.pid} on {away.host}"):
        start_run(store, "people")
    with store.engine.begin() as connection:
        connection.execute(RUNS.update().values(seen_ms=RUNS.c.seen_ms - int(LAPSE_S * 1000) - 1))
    assert start_run(store, "people").generation == 2


def test_run_of_a_reused_pid_is_dead(store: StateStore) -> None:
    start_run(store, "people", Me(HERE.host, HERE.boot, HERE.pid, HERE.process_start - 1))
    start_run(store, "people").end("succeeded")


def test_one_of_many_concurrent_starts_gets_the_run(file: Path, store: StateStore) -> None:
    got: list[int] = []
    refused: list[str] = []
    stores = [StateStore(file) for _ in range(6)]

    def start(mine: StateStore) -> None:
        try:
            got.append(start_run(mine, "people").generation)
        except Rejected as error:
            refused.append(error.message)

    threads = [threading.Thread(target=start, args=(mine,)) for mine in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got == [1] and len(refused) == 5
    assert len(list_runs(store)) == 1


def test_run_survives_a_store_that_is_briefly_unavailable(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.connect.runs.BEAT_S", 0.01)
    begin, failures = store.transaction, [sa.exc.OperationalError("UPDATE", {}, OSError("gone"))] * 3
    run = start_run(store, "people")

    @contextmanager
    def failing() -> Iterator[sa.Connection]:
        with begin() as connection:
            if failures:
                raise failures.pop()
            yield connection

    monkeypatch.setattr(store, "transaction", failing)
    wait_until(lambda: not failures, what="failed beats")
    seen = list_runs(store)[0]["seen_ms"]
    wait_until(lambda: list_runs(store)[0]["seen_ms"] > seen, 20, what="a beat")
    run.end("succeeded")


def test_run_detects_that_it_was_taken_over(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.connect.runs.BEAT_S", 0.01)
    lost = threading.Event()
    run = start_run(store, "people")
    run.on_lost = lost.set
    with store.transaction() as connection:
        connection.execute(RUNS.update().values(host="elsewhere", seen_ms=0))
        connection.execute(RUNS.update().values(ended_ms=1, status="lost"))
    assert lost.wait(20)
    run.end("succeeded")
    assert list_runs(store)[0]["status"] == "lost"
