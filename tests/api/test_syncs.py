"""Syncs of a real run over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers.run import Run
from helpers.sync_connectors import CONNECTORS
from helpers.waiting import wait_until

Ask = Callable[..., Any]
CONFIG = """
[[syncs]]
name = "copy"
source = { connector = "file", path = "in", format = "csv" }
destination = { connector = "file", path = "out", format = "jsonl" }
every = "1h"

[[syncs]]
name = "numbers"
source = { connector = "sample:Numbers", rows = 35, folder = "FOLDER" }
destination = { connector = "sample:Lines", folder = "FOLDER", fails = "auth", bad = [7] }
streams = [{ name = "a", mode = "incremental", cursor = "n" }]
policies = { on_data_error = "dlq" }

[[syncs]]
name = "slow"
source = { connector = "sample:Numbers", rows = 100000, folder = "FOLDER", pause = 0.05 }
destination = { connector = "sample:Lines", folder = "FOLDER" }
streams = [{ name = "b", mode = "incremental", cursor = "n" }]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("syncs")
    (folder / "sample.py").write_text(CONNECTORS)
    (folder / "in").mkdir()
    (folder / "in" / "people.csv").write_text("id,name\n1,a\n2,b\n")
    started = Run(folder, CONFIG.replace("FOLDER", str(folder))).start()
    yield started
    started.end()


def sync(ask: Ask, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ask("GET", f"/api/syncs/{name}").json()
    return found


def run_to_end(ask: Ask, name: str) -> dict[str, Any]:
    reply = ask("POST", f"/api/syncs/{name}/run")
    assert reply.status == 202 and reply.json()["state"] == "running", reply.body
    wait_until(lambda: sync(ask, name)["state"] != "running", 120)
    return sync(ask, name)


def test_a_sync_that_is_due_has_run_and_is_listed(run: Run, ask: Ask) -> None:
    wait_until(lambda: sync(ask, "copy")["last"] and sync(ask, "copy")["state"] == "idle", 120)
    names = [each["name"] for each in ask("GET", "/api/syncs").json()["syncs"]]
    assert names == ["copy", "numbers", "slow"]
    found = sync(ask, "copy")
    last = found["last"]
    assert (found["source"], found["destination"], found["every"]) == ("file", "file", "1h")
    assert (last["status"], last["rows"], last["error"], last["run"]) == ("succeeded", 2, "", "copy#1")
    assert last["seconds"] > 0 and last["ended_ms"] >= last["started_ms"]
    assert found["next_ms"] == last["started_ms"] + 3_600_000
    assert [(each["name"], each["status"], each["rows"]) for each in found["streams"]] == [("in", "succeeded", 2)]
    [brief, *_] = ask("GET", "/api/status").json()["syncs"]
    assert (brief["name"], brief["rows"], brief["last"]["status"]) == ("copy", 2, "succeeded")
    assert [json.loads(line) for path in (run.folder / "out" / "in").glob("*.jsonl") for line in path.open()]
    listed = json.loads(run.cli("syncs", "ls", "--file", str(run.config), "--json").stdout)["syncs"]
    assert listed[0]["last"]["status"] == "succeeded"


def test_a_sync_runs_when_asked_and_shows_its_cursor_and_letters(run: Run, ask: Ask) -> None:
    assert sync(ask, "numbers")["next_ms"] is None
    found = run_to_end(ask, "numbers")
    assert found["last"]["status"] == "succeeded" and found["last"]["rows"] == 34 and found["letters"] == 1
    [stream] = found["streams"]
    assert (stream["name"], stream["cursor"], stream["lag_ms"]) == ("a", {"int64": 35}, None)
    assert len((run.folder / "a.txt").read_text().split()) == 34


def test_a_failed_sync_makes_the_run_degraded_until_it_succeeds(run: Run, ask: Ask) -> None:
    run_to_end(ask, "numbers")
    (run.folder / "fail").write_text("1")
    (run.folder / "a.txt").unlink(missing_ok=True)
    assert run.cli("syncs", "state", "reset", "numbers", "a", "--file", str(run.config)).returncode == 0
    found = run_to_end(ask, "numbers")
    assert found["state"] == "failed" and "the disk is away" in found["last"]["error"]
    health = ask("GET", "/api/health").json()
    assert health["status"] == "degraded"
    assert health["reasons"] == ['sync "numbers" failed: a: the disk is away']
    assert run_to_end(ask, "numbers")["state"] == "idle"
    assert ask("GET", "/api/health").json()["status"] == "ready"


def test_a_running_sync_is_not_started_again(run: Run, ask: Ask) -> None:
    assert ask("POST", "/api/syncs/slow/run").status == 202
    wait_until(lambda: (sync(ask, "slow")["last"] or {}).get("run"), 120)
    again = ask("POST", "/api/syncs/slow/run")
    assert again.status == 409 and again.json()["error"]["code"] == "rejected"
    by_hand = run.cli("sync", str(run.config), "slow", check=False)
    assert by_hand.returncode == 3 and "is running" in by_hand.stderr
    assert sync(ask, "slow")["state"] == "running"


def test_an_unknown_sync_and_a_read_only_token_are_refused(run: Run, ask: Ask) -> None:
    for method, path in (("GET", "/api/syncs/nobody"), ("POST", "/api/syncs/nobody/run")):
        reply = ask(method, path)
        assert reply.status == 404 and reply.json()["error"]["code"] == "not_found"
    token = (run.data_dir / "read.token").read_text().strip()
    assert ask("GET", "/api/syncs", token=token).status == 200
    assert ask("POST", "/api/syncs/copy/run", token=token).status == 403


def test_metrics_count_runs_rows_and_letters(ask: Ask) -> None:
    run_to_end(ask, "numbers")
    wait_until(lambda: sync(ask, "copy")["last"] and sync(ask, "copy")["state"] == "idle", 120)
    families = {family.name: family for family in text_string_to_metric_families(ask("GET", "/metrics").body.decode())}

    def value(name: str, **labels: str) -> float:
        return next(s.value for s in families[name].samples if labels.items() <= s.labels.items())

    assert value("gauss_sync_runs", sync="numbers", status="succeeded") >= 1
    assert value("gauss_sync_rows", sync="copy") == 2 and value("gauss_sync_bytes", sync="copy") > 0
    assert value("gauss_sync_letters", sync="numbers") >= 1
    assert value("gauss_sync_connector_records", sync="copy", stream="in", connector="source-file") == 2
    assert value("gauss_sync_connector_commit_ms_count", sync="copy", connector="destination-file") >= 1
    [stream] = sync(ask, "copy")["streams"]
    assert {"connector": "source-file", "name": "records", "kind": "counter", "value": 2} in stream["metrics"]
    assert value("gauss_sync_running", sync="copy") == 0
    assert value("gauss_sync_last_duration_seconds", sync="copy") > 0
    assert 0 < time.time() - value("gauss_sync_last_success_timestamp_seconds", sync="numbers") < 600


def test_letters_of_a_sync_are_replayed_and_discarded_beside_the_run(run: Run, ask: Ask) -> None:
    assert run.cli("syncs", "state", "reset", "numbers", "a", "--file", str(run.config)).returncode == 0
    run_to_end(ask, "numbers")
    groups = json.loads(run.cli("dlq", "ls", "--json").stdout)["groups"]
    assert [(group["sync"], group["reason"]) for group in groups] == [("numbers", "BAD")]
    counted = ask("GET", "/api/dlq").json()
    assert counted["groups"] == groups and counted["total"] == ask("GET", "/api/overview").json()["dead"] == 1
    [letter] = ask("GET", "/api/dlq/letters?sync=numbers&reason=BAD").json()["letters"]
    assert (letter["number"], letter["stream"], letter["row"]["n"]) == (1, "a", 7) and "ipc" not in letter
    assert ask("GET", "/api/dlq/letters?sync=numbers&stage=read&reason=no").json()["letters"] == []
    assert ask("GET", "/api/dlq/letters?sync=numbers&processor=x").status == 422
    assert ask("GET", "/api/dlq?processor=x").json()["groups"] == []
    done = json.loads(run.cli("dlq", "replay", "--sync", "numbers", "1", "--json").stdout)  # with the run's pipeline
    assert (done["replayed"], done["returned"]) == (1, 1)
    assert run.cli("dlq", "discard", "--all", "--yes").returncode == 0
    assert sync(ask, "numbers")["letters"] == 0


def test_the_description_has_the_operations(ask: Ask) -> None:
    paths = ask("GET", "/openapi.json").json()["paths"]
    assert paths["/api/syncs"]["get"]["x-token"] == "read" and paths["/api/syncs/{name}"]["get"]["x-token"] == "read"
    started = paths["/api/syncs/{name}/run"]["post"]
    assert started["x-token"] == "full" and {"202", "403", "404", "409"} <= started["responses"].keys()
