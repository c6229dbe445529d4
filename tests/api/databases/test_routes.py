"""What the routes answer, to whom, and what they never pass on."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest

from api.databases.conftest import served
from gauss.clients.dbstates.client import DatabaseStates, running
from gauss.fleet.store.access import Role
from helpers.dbstates import Prepared, engine, unique
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

People = Callable[..., Prepared]
HOSTILE = (
    "...", "../../etc/passwd", "<script>alert(1)</script>", "'; DROP TABLE states; --", "\u202e" * 40, "%", "a" * 4000,
    "0000000g", "ABCDEF0123456789", "?recurse=true&force=true", "\n\r\n",
)  # fmt: skip


def test_reading_starts_no_engine_and_makes_no_file(tmp_path: Path) -> None:
    with served(tmp_path) as found, found.client(Role.VIEWER) as client:
        seen = client.get("/databases").json()
        assert (seen["engine"], seen["states"], seen["cache"]) == ("never", [], None)
        refused = client.get(f"/databases/states/{'a' * 64}")
        assert refused.status_code == 503 and "POST /api/databases/start" in refused.json()["error"]["hint"]
        assert not found.data_dir.exists()


def test_one_reading_has_states_instances_and_jobs(api: httpx.Client, people: People, made: Prepared) -> None:
    made = people()
    seen = api.get("/databases").json()
    assert seen["engine"] == "running" and seen["cache"]["states"] == len(seen["states"])
    assert {"seed.sql", "schema.sql"} <= {row["title"] for row in seen["states"]}
    assert made.instance in {row["instance_id"] for row in seen["instances"]}
    newest = seen["jobs"][0]
    assert (newest["job_id"], newest["steps"]) == (made.job, {"all": 2, "cached": 2, "executed": 0})
    assert 0 < seen["steps"]["cached"] < seen["steps"]["all"]


@pytest.mark.usefixtures("made")
def test_an_unchanged_reading_is_not_sent_again(api: httpx.Client) -> None:
    wait_until(
        lambda: all(row["exclusive_bytes"] is not None for row in api.get("/databases").json()["states"]), what="sizes"
    )

    def again() -> bool:
        first = api.get("/databases")
        return api.get("/databases", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304

    wait_until(again, what="an answer without a body")


def test_the_password_is_for_operators_who_ask_for_it(api: httpx.Client, viewer: httpx.Client, made: Prepared) -> None:
    password = made.dsn.partition("postgres:")[2].partition("@")[0]
    assert len(password) > 10
    paths = ("", f"/instances/{made.instance}", f"/prepare-jobs/{made.job}", f"/prepare-jobs/{made.job}/events")
    for client in (api, viewer):
        answers = [client.get(f"/databases{path}") for path in (*paths, f"/states/{made.state}")]
        assert all(answer.status_code == 200 and password not in answer.text for answer in answers)
    assert viewer.post(f"/databases/instances/{made.instance}/connection").status_code == 403
    dsn = api.post(f"/databases/instances/{made.instance}/connection").json()["dsn"]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (100,)
        wait_until(
            lambda: api.get(f"/databases/instances/{made.instance}").json()["connections"] == 1, what="a connection"
        )


def test_the_token_of_the_engine_is_in_no_answer(api: httpx.Client, states: DatabaseStates, made: Prepared) -> None:
    token = states.place["authToken"]
    answers = [
        api.get("/databases"),
        api.post("/databases/start"),
        api.get(f"/databases/prepare-jobs/{made.job}"),
        api.get(f"/databases/states/{made.state}"),
    ]
    assert all(answer.status_code == 200 and token not in answer.text for answer in answers)


def test_values_of_variables_are_hidden(api: httpx.Client, viewer: httpx.Client, people: People) -> None:
    made = people("-v", "pw=s3cret", "-f", "schema.sql")
    for client in (api, viewer):
        assert client.get(f"/databases/prepare-jobs/{made.job}").json()["args"][:2] == ["-v", "pw=…"]
        assert "s3cret" not in client.get("/databases").text
    again = api.post("/databases/prepare-jobs", json={"again": made.job}).json()["job_id"]
    assert "s3cret" not in api.get(f"/databases/prepare-jobs/{again}/events").text
    assert api.get(f"/databases/prepare-jobs/{again}").json()["result"]["state_id"] == made.state


@pytest.mark.parametrize("id", HOSTILE)
def test_hostile_ids_are_not_found_and_never_reach_the_engine(api: httpx.Client, id: str) -> None:
    shown = quote(id, safe="")
    for method, path in (
        ("GET", "states/{}"), ("DELETE", "states/{}"), ("GET", "instances/{}"), ("POST", "instances/{}/connection"),
        ("GET", "prepare-jobs/{}"), ("GET", "prepare-jobs/{}/events"), ("POST", "prepare-jobs/{}/cancel"),
    ):  # fmt: skip
        answer = api.request(method, f"/databases/{path.format(shown)}")
        assert answer.status_code in (404, 405), (method, path, answer.text)
        assert set(answer.json()["error"]) == {"code", "message", "hint", "retryable"}
    assert api.post("/databases/prepare-jobs", json={"again": id}).status_code == 404


def test_viewers_change_nothing(viewer: httpx.Client, made: Prepared) -> None:
    for method, path, body in (
        ("POST", "start", None), ("DELETE", f"states/{made.state}?dry_run=true", None),
        ("DELETE", f"states/{made.state}", None), ("DELETE", f"instances/{made.instance}", None),
        ("POST", f"instances/{made.instance}/reset", None), ("PATCH", f"instances/{made.instance}", {"kept": True}),
        ("POST", "prepare-jobs", {"again": made.job}), ("POST", "explain", {"again": made.job}),
        ("POST", f"prepare-jobs/{made.job}/cancel", None), ("DELETE", f"prepare-jobs/{made.job}", None),
    ):  # fmt: skip
        answer = viewer.request(method, f"/databases/{path}", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden"), path


def test_a_job_is_prepared_again_and_watched(api: httpx.Client, viewer: httpx.Client, made: Prepared) -> None:
    explained = api.post("/databases/explain", json={"again": made.job}).json()
    assert (explained["outcome"], explained["state_id"]) == ("hit", made.state)
    job = api.post("/databases/prepare-jobs", json={"again": made.job})
    assert job.status_code == 201
    path = f"/databases/prepare-jobs/{job.json()['job_id']}"
    with viewer.stream("GET", f"{path}/events") as stream:
        events = [json.loads(line) for line in stream.iter_lines()]
    assert sorted({event["seq"] for event in events}) == list(range(1, events[-1]["seq"] + 1))
    assert events[-1]["status"] == "succeeded"
    assert json.loads(viewer.get(f"{path}/events?from=3").text.splitlines()[0])["seq"] == 3
    assert {task["type"] for task in viewer.get(path).json()["tasks"]} >= {"state_execute", "prepare_instance"}
    for body in ({}, {"again": made.job, "database": "x"}, {"args": ["-c", "\\! id"]}, {"database": "x"}):
        assert api.post("/databases/prepare-jobs", json=body).status_code in (404, 422), body


def test_a_watcher_that_leaves_is_forgotten_and_a_job_is_cancelled(api: httpx.Client, people: People) -> None:
    before = sum(thread.name == "tail" for thread in threading.enumerate())
    slow = people_slow(api, people)
    with api.stream("GET", f"/databases/prepare-jobs/{slow}/events") as stream:
        next(stream.iter_lines())
    wait_until(lambda: sum(thread.name == "tail" for thread in threading.enumerate()) <= before, what="no reader")
    assert api.post(f"/databases/prepare-jobs/{slow}/cancel").status_code == 202
    wait_until(
        lambda: api.get(f"/databases/prepare-jobs/{slow}").json()["status"] == "failed", what="the job is cancelled"
    )
    assert api.get(f"/databases/prepare-jobs/{slow}").json()["error"]["code"] == "cancelled"


def people_slow(api: httpx.Client, people: People) -> str:
    """A job that takes long, started by the API: its first run failed at once, the next one sleeps."""
    failed = people("-f", "slow.sql")
    folder = Path(api.get(f"/databases/prepare-jobs/{failed.job}").json()["cwd"])
    (folder / "slow.sql").write_text("SELECT pg_sleep(60);")
    return str(api.post("/databases/prepare-jobs", json={"again": failed.job}).json()["job_id"])


def test_removal_is_all_or_nothing_and_a_dry_run_removes_nothing(api: httpx.Client, people: People) -> None:
    made = people("-c", unique(), "-c", "SELECT 1")
    parent = api.get(f"/databases/states/{made.state}").json()["parent_state_id"]
    dry = api.delete(f"/databases/states/{parent}?dry_run=true").json()
    assert (dry["outcome"], dry["root"]["reason"]) == ("blocked", "has_descendants")
    refused = api.delete(f"/databases/states/{parent}")
    assert refused.status_code == 409 and "has states made of it" in refused.json()["error"]["message"]
    tree = api.delete(f"/databases/states/{parent}?dry_run=true&recurse=true").json()
    assert tree["outcome"] == "would_delete"
    assert {child["id"] for child in tree["root"]["children"][0]["children"]} == {made.instance}
    assert api.get(f"/databases/states/{made.state}").status_code == 200
    assert api.delete(f"/databases/states/{parent}?recurse=true").json()["outcome"] == "deleted"
    assert api.get(f"/databases/states/{made.state}").status_code == 404


def test_an_instance_is_reset_kept_and_removed(api: httpx.Client, people: People) -> None:
    made = people()
    made.sql("DELETE FROM people")
    assert api.post(f"/databases/instances/{made.instance}/reset").json()["status"] == "running"
    assert made.sql("SELECT count(*) FROM people") == 100
    assert api.patch(f"/databases/instances/{made.instance}", json={"kept": True}).json()["expires_ms"] is None
    assert api.delete(f"/databases/instances/{made.instance}?dry_run=true").json()["outcome"] == "would_delete"
    assert api.delete(f"/databases/instances/{made.instance}").json()["outcome"] == "deleted"
    assert api.get(f"/databases/instances/{made.instance}").status_code == 404


def test_a_reading_after_a_kill_says_stopped_and_a_start_adopts(tmp_path: Path) -> None:
    with served(tmp_path) as found, found.client() as client, engine(found.data_dir) as states:
        os.kill(states.place["pid"], signal.SIGKILL)
        wait_until(lambda: running(found.data_dir) is None, what="the engine is gone")
        assert client.get("/databases").json()["engine"] == "stopped"
        assert running(found.data_dir) is None
        assert client.post("/databases/start").json()["engine"] == "running"
        assert client.get("/databases").json()["engine"] == "running"
