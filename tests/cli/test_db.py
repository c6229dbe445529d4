"""`gauss db`: output and exit codes of its commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.dbstates.client import DatabaseStates, running
from helpers.dbstates import unique, write_scripts
from helpers.terminal import on_terminal

pytestmark = pytest.mark.system

COMMAND = (sys.executable, "-m", "gauss.cli.main", "db")
Gauss = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scripts(tmp_path_factory.mktemp("db"))


@pytest.fixture(scope="module")
def gauss(folder: Path) -> Iterator[Gauss]:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False)

    yield run
    if (client := running(folder / ".gauss")) is not None:
        client.post("shutdown")


@pytest.fixture(scope="module")
def result(gauss: Gauss) -> dict[str, object]:
    """The last line of a preparation."""
    done = gauss("prepare", "--json", "--", "-f", "schema.sql", "-f", "seed.sql")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_status_and_shutdown_start_no_engine(tmp_path: Path, gauss: Gauss) -> None:
    for word in ("status", "shutdown"):
        assert gauss(word, "--data-dir", str(tmp_path)).returncode == 4
    assert list(tmp_path.iterdir()) == []


def test_the_last_line_has_dsn_ids_and_tasks(result: dict[str, object]) -> None:
    assert result["type"] == "result"
    assert str(result["dsn"]).startswith("postgresql://postgres:")
    assert len(str(result["instance_id"])) == 32
    assert len(str(result["state_id"])) == 64
    tasks = result["tasks"]
    assert isinstance(tasks, list)
    assert {"type", "cached", "duration_ms"} <= set(tasks[0])


def test_a_failing_script_exits_with_3(gauss: Gauss) -> None:
    done = gauss("prepare", "--", "-c", "SELECT 1/0")
    assert (done.returncode, done.stdout) == (3, "")
    assert "division by zero" in done.stderr


def test_every_line_of_json_is_a_document_also_of_a_failure(gauss: Gauss, result: dict[str, object]) -> None:
    done = gauss("prepare", "--json", "--", "-c", "SELECT 1/0")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 3
    assert [event["error"]["code"] for event in events if event["type"] == "error"] == ["script_failed"]
    done = gauss("run", "--json", str(result["instance_id"]), "--", "-c", "SELECT x")
    assert done.returncode == 3
    assert json.loads(done.stdout.splitlines()[-1])["code"] == 1
    assert gauss("plan", "--json", "--", "-f", "none.sql").returncode == 1


def test_a_blocked_removal_exits_with_5(gauss: Gauss, result: dict[str, object]) -> None:
    states = json.loads(gauss("states", "--json").stdout)["states"]
    done = gauss("rm", "--json", states[0]["state_id"])
    assert done.returncode == 5
    assert json.loads(done.stdout)["root"]["reason"] == "has_descendants"
    assert gauss("rm", "-r", "--dry-run", str(states[0]["state_id"])[:8]).returncode == 0
    assert str(result["state_id"]) in {state["state_id"] for state in states}


def test_psql_and_run_print_what_the_instance_has(gauss: Gauss, result: dict[str, object]) -> None:
    instance = str(result["instance_id"])
    query = ["-Atc", "SELECT count(*) FROM people"]
    assert gauss("psql", instance, "--", *query).stdout == "100\n"
    assert gauss("run", instance, "--", *query).stdout == "100\n"
    assert gauss("run", instance, "--", "-c", "SELECT x").returncode == 3


def test_plan_and_explain_show_steps(gauss: Gauss, result: dict[str, object]) -> None:
    del result
    planned = gauss("plan", "--", "-f", "schema.sql", "-c", "SELECT random()").stdout.splitlines()
    assert [line.split("  ")[0] for line in planned[1:]] == ["schema.sql", "-c 'SELECT random()'"]
    explained = gauss("explain", "--", "-f", "schema.sql", "-c", "SELECT random()").stdout
    assert explained.startswith("miss: step 2")
    assert "random()" in explained.splitlines()[-1]


def test_status_names_engine_store_and_backend(gauss: Gauss, result: dict[str, object]) -> None:
    del result
    found = json.loads(gauss("status", "--json").stdout)
    assert {"pid", "endpoint", "store", "backend"} <= set(found)
    assert Path(found["store"]).name == "state-store"


def _client(folder: Path) -> DatabaseStates:
    found = running(folder / ".gauss")
    assert found is not None
    return found


def _prepared(gauss: Gauss, *args: str) -> dict[str, str]:
    done = gauss("prepare", "--json", "--", *args)
    assert done.returncode == 0, done.stdout
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_watch_shows_a_job_again(gauss: Gauss, result: dict[str, Any]) -> None:
    job = result["tasks"][0]["job_id"]
    assert gauss("watch", job[:8]).stdout == f"instance {result['instance_id']}\n"
    events = [json.loads(line) for line in gauss("watch", "--json", "--from", "3", job).stdout.splitlines()]
    assert events[0]["seq"] == 3
    assert events[-1] == {key: value for key, value in result.items() if key != "dsn"}
    assert gauss("watch", "0" * 8).returncode == 3


def test_reset_gives_the_content_of_the_state_again(gauss: Gauss, result: dict[str, Any]) -> None:
    instance = result["instance_id"]
    assert gauss("psql", instance, "--", "-qc", "DELETE FROM people").returncode == 0
    assert gauss("reset", instance[:8]).stdout.startswith(f"{instance[:12]} has the content of state")
    assert gauss("psql", instance, "--", "-Atc", "SELECT count(*) FROM people").stdout == "100\n"


def test_instances_are_listed_by_state(gauss: Gauss, result: dict[str, Any]) -> None:
    shown = gauss("instances").stdout
    assert result["instance_id"][:12] in shown and "running" in shown and " min" in shown
    listed = json.loads(gauss("instances", "--json", "--state", result["state_id"]).stdout)["instances"]
    assert result["instance_id"] in {row["instance_id"] for row in listed}
    assert {row["state_id"] for row in listed} == {result["state_id"]}
    assert json.loads(gauss("instances", "--json", "--state", "0" * 64).stdout) == {"instances": []}


def test_settings_are_shown_changed_and_restored(gauss: Gauss, result: dict[str, Any]) -> None:
    del result
    assert gauss("config", "instances.ttlSecs").stdout == "null\n"
    assert gauss("config", "instances.ttlSecs", "--effective").stdout == "3600\n"
    assert gauss("config", "instances.ttlSecs", "1800").returncode == 0
    assert json.loads(gauss("config").stdout) == {"instances.ttlSecs": 1800}
    assert gauss("config", "instances.ttlSecs", "--unset").stdout == "3600\n"
    assert "ttlSecs" in gauss("config", "--schema").stdout
    done = gauss("config", "instances.ttlSecs", "soon")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ttlSecs" in done.stderr


def test_several_removals_are_all_made_or_none(gauss: Gauss, folder: Path) -> None:
    write_scripts(folder, one=unique(), two="SELECT 1;")
    made = _prepared(gauss, "-f", "one.sql", "-f", "two.sql")
    job, instance, state = made["tasks"][0]["job_id"], made["instance_id"], made["state_id"]  # type: ignore[index]
    parent = made["tasks"][1]["state_id"]  # type: ignore[index]
    blocked = gauss("rm", instance, parent)
    assert blocked.returncode == 5 and "nothing was removed" in blocked.stderr
    assert gauss("rm", instance, "0" * 64).returncode == 3
    assert _client(folder).get("instances", instance)["status"] == "running"
    done = gauss("rm", instance, state, parent, job)  # each after what was made of it
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith(" ")] == [
        "instance", "state", "state", "job"
    ]  # fmt: skip
    assert gauss("rm", state[:8], job[:8]).returncode == 0  # once more


def test_plan_and_explain_as_json(gauss: Gauss, result: dict[str, Any]) -> None:
    planned = json.loads(gauss("plan", "--json", "--", "-f", "schema.sql", "-f", "seed.sql").stdout.splitlines()[-1])
    assert (planned["state_id"], planned["instance_id"]) == (result["state_id"], None)
    assert [task["cached"] for task in planned["tasks"] if task["type"] == "state_execute"] == [True, True]
    found = json.loads(gauss("explain", "--json", "--", "-f", "schema.sql").stdout)
    assert (found["outcome"], found["changes"], [step["number"] for step in found["steps"]]) == ("hit", [], [1])


def test_a_terminal_shows_the_tasks_of_a_job(folder: Path, result: dict[str, Any]) -> None:
    del result
    (folder / "slow.sql").write_text(f"{unique()}SELECT pg_sleep(0.5);")
    code, shown = on_terminal([*COMMAND, "prepare", "--", "-f", "schema.sql", "-f", "slow.sql"], cwd=folder)
    text = shown.decode()
    assert code == 0, text
    assert "✓ schema.sql            (cached)" in text or "schema.sql" in text
    assert "4 of 4 tasks" in text
    assert text.splitlines()[-1].startswith("postgresql://")


def test_ctrl_c_cancels_the_job(folder: Path, result: dict[str, Any]) -> None:
    del result
    command = [*COMMAND, "prepare", "--json", "--", "-c", "SELECT pg_sleep(600)"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        job = json.loads(process.stdout.readline())["job_id"]
        while not json.loads(process.stdout.readline()).get("message", "").startswith("psql:"):
            pass
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(20) == 130
    last = list(_client(folder).events(job))
    assert [event["error"]["code"] for event in last if event["type"] == "error"] == ["cancelled"]
