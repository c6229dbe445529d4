"""Prepared databases of a pipeline: what `check`, `test`, `sync` and `run` do with them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates, running, start
from helpers.dbstates import write_scripts
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

PIPELINE = """
[[databases]]
name = "shop"
prepare = { args = ["-f", "schema.sql", "-f", "seed.sql"] }

[[formats]]
name = "person"
plugin = "pg-binary"

[[topics]]
name = "people"
storage = "memory"

[[processors]]
name = "read"
plugin = "pg-source"
target = { topic = "people" }
config = { database = "shop", table = "people", input = { format = "person" } }

[[syncs]]
name = "copy"
source = { connector = "postgres", database = "shop" }
destination = { connector = "postgres", database = "shop", schema = "copied" }
streams = [{ name = "public.people" }]
"""
TABLE = """
[[databases]]
name = "shop"
prepare = { args = ["-f", "schema.sql"] }

[[formats]]
name = "row"
plugin = "json"
config = { fields = [{ name = "id", type = "int64" }] }

[[topics]]
name = "people"
storage = "postgres"
storage_config = { database = "shop", format = "row" }
"""
CASES = """
[[cases]]
name = "all people are read"
expect = [{ topic = "people", count = 100 }]

[[cases]]
name = "records of tests come after them"
steps = [{ send = "people", records = [{ id = 7, name = "Ada" }], format = "person" }]
expect = [{ topic = "people", count = 101 }]
"""
Done = subprocess.CompletedProcess[str]
Gauss = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = write_scripts(tmp_path_factory.mktemp("pipeline"))
    (folder / "pipeline.toml").write_text(PIPELINE)
    (folder / "pipeline.test.toml").write_text(CASES)
    (folder / "table.toml").write_text(TABLE)
    yield folder
    if (client := running(folder / ".gauss")) is not None:
        client.post("shutdown")


@pytest.fixture(scope="module")
def gauss(folder: Path) -> Gauss:
    def run(*words: str) -> Done:
        command = [sys.executable, "-m", "gauss.cli.main", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)

    return run


def _instances(folder: Path) -> list[dict[str, object]]:
    client = start(folder / ".gauss")
    found: list[dict[str, object]] = client.get("instances")["instances"]
    return found


def _psql(gauss: Gauss, folder: Path, query: str) -> str:
    return gauss("db", "psql", str(_instances(folder)[0]["instance_id"]), "--", "-Atc", query).stdout.strip()


def test_what_starts_nothing_says_that_the_database_is_not_up(gauss: Gauss, tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path / "data"))
    checked = gauss("check", "pipeline.toml", *where)
    assert (checked.returncode, 'database "shop", which is not up' in checked.stdout) == (0, True), checked.stdout
    assert "embedded" not in checked.stdout
    assert 'the database "shop" is not up' in gauss("schema", "table.toml", *where).stdout
    assert 'the database "shop" is not up' in gauss("explain", "pipeline.toml", "copy", *where).stdout
    assert not (tmp_path / "data").exists()


def test_cases_have_clones_and_leave_none(gauss: Gauss, folder: Path) -> None:
    done = gauss("test", "pipeline.toml")
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout + done.stderr
    assert _instances(folder) == []


def test_a_case_tells_of_a_script_that_fails(gauss: Gauss, folder: Path) -> None:
    good = (folder / "seed.sql").read_text()
    (folder / "seed.sql").write_text("SELECT 1/0;\n")
    done = gauss("test", "pipeline.toml", "--case", "all people are read")
    (folder / "seed.sql").write_text(good)
    assert done.returncode == 1
    assert 'database "shop": seed.sql failed' in done.stdout and "division by zero" in done.stdout


def test_a_run_and_syncs_share_an_instance_that_is_kept(gauss: Gauss, folder: Path) -> None:
    """What a sync wrote is there in the next run, whose server has the same port; in between none runs."""
    done = gauss("sync", "pipeline.toml")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: _instances(folder)[0]["status"] == "stopped", 10, "the server is stopped")
    before = _instances(folder)
    assert before[0]["kept"] is True
    again = gauss("run", "pipeline.toml", "--for", "1s")
    assert again.returncode == 0, again.stderr
    after = _instances(folder)
    assert [(row["instance_id"], row["port"]) for row in after] == [(row["instance_id"], row["port"]) for row in before]
    assert _psql(gauss, folder, "SELECT count(*) FROM copied.people") == "100"
    start(folder / ".gauss").post("shutdown")
    assert gauss("sync", "pipeline.toml").returncode == 0
    assert [row["instance_id"] for row in _instances(folder)] == [before[0]["instance_id"]]


def test_changed_scripts_are_refused_for_a_data_directory_with_content(gauss: Gauss, folder: Path) -> None:
    good = (folder / "seed.sql").read_text()
    (folder / "seed.sql").write_text(f"{good}DELETE FROM people;\n")
    done = gauss("sync", "pipeline.toml")
    (folder / "seed.sql").write_text(good)
    assert (done.returncode, "its scripts" in done.stderr, "--data-dir" in done.stderr) == (1, True, True), done.stderr


@pytest.fixture
def hanging_script(folder: Path) -> Iterator[None]:
    good = (folder / "schema.sql").read_text()
    (folder / "schema.sql").write_text("SELECT pg_sleep(600);\n")
    yield
    (folder / "schema.sql").write_text(good)


@pytest.mark.usefixtures("hanging_script")
@pytest.mark.parametrize(
    ("word", "number", "code"),
    [
        ("run", signal.SIGINT, 130),
        ("run", signal.SIGKILL, -9),
        ("test", signal.SIGTERM, 143),
        ("test", signal.SIGKILL, -9),
    ],
)
def test_a_preparation_ends_with_the_command(folder: Path, word: str, number: signal.Signals, code: int) -> None:
    client = start(folder / ".gauss")
    for row in _instances(folder):
        client.remove("instances", str(row["instance_id"]), force="true")
    command = [sys.executable, "-m", "gauss.cli.main", word, "pipeline.toml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            wait_until(lambda: "running" in _jobs(client), 30, "it prepares")
            process.send_signal(number)
            process.communicate(timeout=15)
        finally:
            process.kill()
    assert process.returncode == code
    wait_until(lambda: _jobs(client) <= {"failed", "succeeded"}, 5, "the jobs have ended")
    assert _instances(folder) == []


def _jobs(client: DatabaseStates) -> set[str]:
    return {str(job["status"]) for job in client.get("prepare-jobs")["jobs"]}


def test_instances_of_commands_are_shown_without_an_end(gauss: Gauss) -> None:
    assert gauss("sync", "pipeline.toml").returncode == 0
    rows = json.loads(gauss("db", "instances", "--json").stdout)["instances"]
    assert [(row["kept"], row["expires_ms"]) for row in rows] == [(True, None)]
    dsn = json.loads(gauss("db", "psql", rows[0]["instance_id"], "--json").stdout)["dsn"]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (100,)
