"""When an engine ends by itself, and what it makes of what an earlier one has left."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.clients.dbstates.client import running, start
from helpers.dbstates import engine, kill_engine, marked_processes, prepare, request, unique, write_scripts
from helpers.waiting import stays, wait_until

pytestmark = pytest.mark.system
DECADE_MS = 10 * 365 * 86_400_000


@pytest.fixture(scope="module")
def data_dir(fast_folder: Path) -> Iterator[Path]:
    folder = fast_folder / "life"
    with engine(folder):
        yield folder


def test_an_engine_without_instances_ends_by_itself(fast_folder: Path, tmp_path: Path) -> None:
    folder = fast_folder / "idle"
    with engine(folder) as client:
        job = prepare(client, write_scripts(tmp_path))
        client.patch("config", body={"path": "engine.idleSecs", "value": 1})
        stays(lambda: running(folder) is not None, 1.5, "it has an instance")
        client.remove("instances", job.instance)
        wait_until(lambda: running(folder) is None, what="it ends")
        assert marked_processes(folder) == []


def test_a_job_whose_request_is_lost_fails_and_a_clock_may_jump(data_dir: Path, tmp_path: Path) -> None:
    client = start(data_dir)
    kept = prepare(client, write_scripts(tmp_path))
    write_scripts(tmp_path, slow=f"{unique()}SELECT pg_sleep(600);")
    events = client.prepare(request(tmp_path, "-f", "slow.sql"))
    job = next(events)["job_id"]
    next(event for event in events if event.get("message") == "psql: slow.sql")
    kill_engine(data_dir)
    with sqlite3.connect(data_dir / "dbstates" / "state-store" / "metadata.db") as metadata:
        metadata.execute("UPDATE jobs SET request = '{}' WHERE id = ?", (job,))
        metadata.execute("UPDATE instances SET used_ms = used_ms + ?", (DECADE_MS,))
    again = start(data_dir)
    assert "the request of the job is lost" in list(again.events(job))[-2]["error"]["message"]
    row = again.get("instances", kept.instance)
    assert row["status"] == "running"
    assert row["expires_ms"] <= row["created_ms"] + 2 * 3_600_000  # a life time from now, not in ten years


def test_a_deleted_job_has_no_folder(data_dir: Path, tmp_path: Path) -> None:
    client = start(data_dir)
    job = prepare(client, write_scripts(tmp_path, a=unique()), "-f", "a.sql")
    folder = data_dir / "dbstates" / "state-store" / "jobs" / job.job
    assert folder.is_dir()
    assert client.remove("prepare-jobs", job.job)["outcome"] == "deleted"
    assert not folder.exists()


def test_instances_are_listed_by_prefix_state_and_image(data_dir: Path, tmp_path: Path) -> None:
    client = start(data_dir)
    one = prepare(client, write_scripts(tmp_path, a=unique()), "-f", "a.sql")
    two = prepare(client, write_scripts(tmp_path, a=unique()), "-f", "a.sql")

    def listed(**query: str) -> set[str]:
        return {row["instance_id"] for row in client.get("instances", **query)["instances"]}

    assert listed(id_prefix=one.instance[:9]) == {one.instance}
    assert listed(state=two.state) == {two.instance}
    assert listed(state=two.state, image="/none") == set()


def test_a_statement_has_a_time_limit(data_dir: Path, tmp_path: Path) -> None:
    client = start(data_dir)
    client.patch("config", body={"path": "orchestrator.statementTimeoutSecs", "value": 0.2})
    job = prepare(client, write_scripts(tmp_path, a=f"{unique()}SELECT pg_sleep(600);"), "-f", "a.sql")
    client.delete("config", path="orchestrator.statementTimeoutSecs")
    assert "statement timeout" in job.error["message"]
