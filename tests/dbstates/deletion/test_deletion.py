"""The rules of deletion, against a real engine."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates
from gauss.model.errors import NotFound
from helpers.dbstates import Prepared, prepare, request, unique, write_scripts


@pytest.fixture
def chain(client: DatabaseStates, tmp_path: Path) -> tuple[str, Prepared]:
    """A state, and a job with the state made of it."""
    write_scripts(tmp_path, one=unique(), two=unique())
    job = prepare(client, tmp_path, "-f", "one.sql", "-f", "two.sql")
    return job.result["tasks"][1]["state_id"], job


def delete(client: DatabaseStates, state: str, **flags: str) -> dict[str, Any]:
    return client.remove("states", state, **flags)


def test_a_state_with_descendants_is_blocked(client: DatabaseStates, chain: tuple[str, Prepared]) -> None:
    parent, job = chain
    for flags in ({}, {"force": "true"}):  # force is not recurse
        found = delete(client, parent, **flags)
        assert (found["outcome"], found["root"]["reason"]) == ("blocked", "has_descendants")
    assert client.get("states", job.state)["status"] == "ready"


def test_recurse_deletes_the_whole_tree(client: DatabaseStates, chain: tuple[str, Prepared]) -> None:
    parent, job = chain
    planned = delete(client, parent, recurse="true", dry_run="true")
    assert (planned["outcome"], planned["dry_run"]) == ("would_delete", True)
    found = delete(client, parent, recurse="true")
    assert found == {**planned, "outcome": "deleted", "dry_run": False}
    assert [node["kind"] for node in found["root"]["children"]] == ["state"]
    assert found["root"]["children"][0]["children"][0]["id"] == job.instance
    with pytest.raises(NotFound):
        client.get("instances", job.instance)


def test_a_connection_blocks_everything_above_it(client: DatabaseStates, chain: tuple[str, Prepared]) -> None:
    parent, job = chain
    with psycopg.connect(job.dsn):
        found = delete(client, parent, recurse="true")
        state = found["root"]["children"][0]
        assert found["outcome"] == "blocked"
        assert found["root"]["reason"] == state["reason"] == "blocked_by_descendant"
        assert state["children"][0]["reason"] == "active_connections"
        assert state["children"][0]["connections"] == 1
        assert client.get("states", job.state)["status"] == "ready"  # all or nothing
        assert delete(client, parent, recurse="true", force="true")["outcome"] == "deleted"


def test_a_deletion_that_waits_for_a_server_holds_up_no_job(
    client: DatabaseStates, chain: tuple[str, Prepared], people_sql: Path
) -> None:
    prepare(client, people_sql)
    parent, job = chain
    server = int(client.get("instances", job.instance)["runtime_id"].split("-")[0])
    os.kill(server, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as thread:
            waits = thread.submit(delete, client, parent, recurse="true", dry_run="true")
            time.sleep(0.5)
            assert prepare(client, people_sql).status == "succeeded"
            assert not waits.done(), "the deletion did not wait: this shows nothing"
            assert waits.result()["outcome"] == "would_delete"
    finally:
        os.kill(server, signal.SIGCONT)


def test_a_blocked_dry_run_is_no_conflict(client: DatabaseStates, chain: tuple[str, Prepared]) -> None:
    found = delete(client, chain[0], dry_run="true")
    assert (found["outcome"], found["dry_run"]) == ("blocked", True)


def test_a_state_of_a_running_job_is_not_deleted(client: DatabaseStates, tmp_path: Path) -> None:
    write_scripts(tmp_path, one=unique(), slow="SELECT pg_sleep(600);")
    state = prepare(client, tmp_path, "-f", "one.sql").state
    events = client.prepare(request(tmp_path, "-f", "one.sql", "-f", "slow.sql"))
    job = next(events)["job_id"]
    next(event for event in events if event.get("message") == "psql: slow.sql")
    found = delete(client, state, recurse="true", force="true")
    assert (found["outcome"], found["root"]["reason"]) == ("blocked", "active_tasks")
    blocked = client.remove("prepare-jobs", job)
    assert (blocked["outcome"], blocked["root"]["reason"]) == ("blocked", "active_tasks")
    assert client.remove("prepare-jobs", job, force="true")["outcome"] == "deleted"
    with pytest.raises(NotFound):
        client.get("prepare-jobs", job)
    assert delete(client, state, recurse="true")["outcome"] == "deleted"


def test_a_state_that_was_made_anew_is_deleted_anew(
    client: DatabaseStates, chain: tuple[str, Prepared], tmp_path: Path
) -> None:
    parent, first = chain
    assert delete(client, parent, recurse="true")["outcome"] == "deleted"
    again = prepare(client, tmp_path, "-f", "one.sql", "-f", "two.sql")
    assert (again.cached, again.state) == ([False, False], first.state)
    assert delete(client, parent)["outcome"] == "blocked"
    assert delete(client, parent, recurse="true")["outcome"] == "deleted"
    for kind, known in (("states", parent), ("states", again.state), ("instances", again.instance)):
        with pytest.raises(NotFound):
            client.get(kind, known)


def test_deleting_again_answers_the_same(client: DatabaseStates, chain: tuple[str, Prepared]) -> None:
    _, job = chain
    first = client.remove("instances", job.instance)
    again = client.remove("instances", job.instance)
    short = client.remove("instances", job.instance[:8])
    assert first["outcome"] == again["outcome"] == short["outcome"] == "deleted"
    with pytest.raises(NotFound):
        client.remove("instances", "0" * 32)
    with pytest.raises(NotFound):
        client.remove("states", "../../etc")
