"""Engines and servers that are killed: nothing partial is used, nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates, running, start
from gauss.model.errors import Unavailable
from helpers.dbstates import (
    check_nothing_is_left,
    engine,
    kill_engine,
    marked_processes,
    prepare,
    request,
    unique,
    write_scripts,
)
from helpers.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.fault]

PHASES = ("plan", "server start", "psql: one.sql", "snapshot prepare", "psql: two.sql", "snapshot resume", "handed out")


@pytest.fixture(scope="module")
def data_dir(fast_folder: Path) -> Iterator[Path]:
    folder = fast_folder / "killed"
    with engine(folder):
        yield folder


@pytest.fixture
def client(data_dir: Path) -> DatabaseStates:
    return start(data_dir)


@pytest.mark.parametrize("phase", PHASES)
def test_a_job_survives_a_kill_of_the_engine(
    phase: str, data_dir: Path, client: DatabaseStates, tmp_path: Path
) -> None:
    """It is queued again by the next engine, and makes what was not whole anew."""
    write_scripts(tmp_path, one=f"{unique()}CREATE TABLE n AS SELECT generate_series(1, 10000) n;", two="SELECT 1;")
    events = client.prepare(request(tmp_path, "-f", "one.sql", "-f", "two.sql"))
    job = next(events)["job_id"]
    with contextlib.suppress(Unavailable):
        for event in events:
            task = event.get("task", {"type": "", "status": ""})
            handed_out = (task["type"], task["status"]) == ("prepare_instance", "succeeded")
            if phase in (event.get("message"), task["type"], "handed out" if handed_out else ""):
                kill_engine(data_dir)
                break
    again = start(data_dir)
    last = list(again.events(job))[-1]
    assert last["status"] == "succeeded"
    found = again.get("prepare-jobs", job)
    with psycopg.connect(again.get("instances", found["result"]["instance_id"])["dsn"]) as connection:
        assert connection.execute("SELECT count(*) FROM n").fetchone() == (10000,)
    mine = [row for row in again.get("instances")["instances"] if row["job_id"] == job]
    assert [row["instance_id"] for row in mine] == [found["result"]["instance_id"]]
    check_nothing_is_left(data_dir, again)


def test_a_new_engine_adopts_servers_that_still_run(data_dir: Path, client: DatabaseStates, tmp_path: Path) -> None:
    job = prepare(client, write_scripts(tmp_path))
    before = client.get("instances", job.instance)
    with psycopg.connect(job.dsn) as connection:
        kill_engine(data_dir)
        again = start(data_dir)
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (100,)
    after = again.get("instances", job.instance)
    assert (after["status"], after["runtime_id"], after["dsn"]) == ("running", before["runtime_id"], before["dsn"])


def test_tools_and_servers_of_a_killed_job_end(data_dir: Path, client: DatabaseStates, tmp_path: Path) -> None:
    write_scripts(tmp_path, slow=f"{unique()}\\! sleep 600\n")
    events = client.prepare(request(tmp_path, "-f", "slow.sql"))
    job = next(events)["job_id"]
    next(event for event in events if event.get("message") == "psql: slow.sql")
    left = marked_processes(data_dir)
    kill_engine(data_dir)
    (tmp_path / "slow.sql").write_text("SELECT 1;")
    again = start(data_dir)
    error = [event for event in again.events(job) if event["type"] == "error"][-1]["error"]
    assert "have changed" in error["message"]
    assert not set(left) & set(marked_processes(data_dir)) - _servers(again)
    check_nothing_is_left(data_dir, again)


def _servers(client: DatabaseStates) -> set[int]:
    found = {int(row["runtime_id"].split("-")[0]) for row in client.get("instances")["instances"]}
    import psutil

    return found | {child.pid for pid in found if psutil.pid_exists(pid) for child in psutil.Process(pid).children()}


def test_a_server_killed_while_a_script_runs_fails_the_job(
    data_dir: Path, client: DatabaseStates, tmp_path: Path
) -> None:
    write_scripts(tmp_path, crash=f"{unique()}SELECT pg_sleep(60);")
    events = client.prepare(request(tmp_path, "-f", "crash.sql"))
    job = next(events)["job_id"]
    next(event for event in events if event.get("message") == "psql: crash.sql")
    known = _servers(client)
    server = wait_until(
        lambda: [pid for pid in marked_processes(data_dir) if pid not in known and _is_postgres(pid)],
        what="the server of the job",
    )[0]
    os.kill(server, signal.SIGKILL)
    list(events)
    assert client.get("prepare-jobs", job)["error"]["code"] == "script_failed"
    check_nothing_is_left(data_dir, client)


def _is_postgres(pid: int) -> bool:
    try:
        return b"postgres\0-D" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_run_starts_a_killed_server_again(client: DatabaseStates, tmp_path: Path) -> None:
    job = prepare(client, write_scripts(tmp_path))
    job.sql("DELETE FROM people WHERE id > 7")
    before = client.get("instances", job.instance)["runtime_id"]
    os.kill(int(before.split("-")[0]), signal.SIGKILL)
    wait_until(lambda: client.get("instances", job.instance)["status"] == "stopped")
    events = list(client.run({"instance_id": job.instance, "args": ["-Atc", "SELECT count(*) FROM people"]}))
    assert [event["type"] for event in events] == ["log", "log", "start", "stdout", "exit"]
    assert events[3]["data"] == "7"
    assert client.get("instances", job.instance)["runtime_id"] != before


def test_a_run_without_a_directory_fails_and_rebuilds_nothing(
    data_dir: Path, client: DatabaseStates, tmp_path: Path
) -> None:
    job = prepare(client, write_scripts(tmp_path))
    os.kill(int(client.get("instances", job.instance)["runtime_id"].split("-")[0]), signal.SIGKILL)
    wait_until(lambda: client.get("instances", job.instance)["status"] == "stopped")
    folder = data_dir / "dbstates" / "state-store" / "instances" / job.instance / "data"
    folder.rename(tmp_path.parent / "gone") if folder.stat().st_dev == tmp_path.stat().st_dev else _empty(folder)
    events = list(client.run({"instance_id": job.instance, "args": ["-c", "SELECT 1"]}))
    assert events[-1]["error"]["code"] == "runtime_missing"
    assert client.delete("instances", job.instance)["outcome"] == "deleted"


def _empty(folder: Path) -> None:
    import shutil

    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_two_engines_on_one_store_are_refused(
    data_dir: Path, client: DatabaseStates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del client
    monkeypatch.setenv("GAUSS_STATE_STORE", str(data_dir / "dbstates" / "state-store"))
    with pytest.raises(Exception, match="in use by another engine"):
        start(tmp_path / "other")


def test_shutdown_returns_when_all_servers_have_ended(fast_folder: Path, tmp_path: Path) -> None:
    folder = fast_folder / "ended"
    with engine(folder) as client:
        prepare(client, write_scripts(tmp_path))
        client.post("shutdown")
        assert marked_processes(folder) == []
        wait_until(lambda: running(folder) is None)
        assert not (folder / "dbstates" / "engine.json").exists()


def test_a_command_after_a_shutdown_starts_the_next_engine(fast_folder: Path, tmp_path: Path) -> None:
    folder = fast_folder / "again"
    with engine(folder) as client:
        state = prepare(client, write_scripts(tmp_path)).state
        client.post("shutdown")
        again = start(folder)
        assert again.place["pid"] != client.place["pid"]
        assert again.get("states", state)["status"] == "ready"
        assert again.get("instances") == {"instances": []}
