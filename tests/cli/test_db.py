"""`gauss db`: output and exit codes of its commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gauss.clients.dbstates.client import running
from helpers.dbstates import write_scripts

pytestmark = pytest.mark.system

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def gauss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gauss]:
    folder = write_scripts(tmp_path_factory.mktemp("db"))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gauss.cli.main", "db", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

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
