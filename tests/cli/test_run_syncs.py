"""`gauss run` with syncs as child processes: stopped, killed, and after `gauss sync`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gauss.clients.endpoint import read_endpoint
from gauss.clients.postgres.connect import connect
from helpers.run import Run
from helpers.sync_connectors import CONNECTORS
from helpers.waiting import wait_until

pytestmark = pytest.mark.system
CONFIG = """
[[syncs]]
name = "numbers"
source = {{ connector = "sample:Numbers", rows = 100000, folder = "{folder}", pause = 0.02 }}
destination = {{ connector = "sample:Lines", folder = "{folder}" }}
streams = [{{ name = "a", mode = "incremental", cursor = "n" }}]
every = "1h"
"""

EMBEDDED = """
[[syncs]]
name = "people"
source = { connector = "file", path = "in", format = "csv" }
destination = { connector = "postgres" }
streams = [{ name = "in", table = "people" }]
every = "0 0 1 1 *"
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    (tmp_path / "sample.py").write_text(CONNECTORS)
    made = Run(tmp_path, CONFIG.format(folder=tmp_path))
    yield made
    made.end()


def lines(run: Run) -> list[int]:
    path = run.folder / "a.txt"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def children(run: Run) -> list[psutil.Process]:
    return [each for each in run.named("gauss.cli.main sync") if "guard" not in " ".join(each.cmdline())]


def test_a_stop_drains_a_running_sync(run: Run) -> None:
    run.start()
    wait_until(lambda: len(lines(run)) > 50, 120)
    assert len(children(run)) == 1
    assert run.stop() == 0
    assert children(run) == [] and "killed" not in run.output.read_text()
    written = lines(run)
    assert written == list(range(1, len(written) + 1))
    history = json.loads(run.cli("syncs", "history", "numbers", "--file", str(run.config), "--json").stdout)["runs"]
    assert [each["status"] for each in history] == ["cancelled"]
    state = json.loads(run.cli("syncs", "state", "get", "numbers", "--file", str(run.config), "--json").stdout)
    assert state["streams"][0]["cursor"] == {"int64": len(written)}


@pytest.mark.fault
def test_a_killed_run_takes_its_syncs_with_it_and_the_next_one_goes_on(run: Run) -> None:
    run.start()
    wait_until(lambda: len(lines(run)) > 20, 120)
    [child] = children(run)
    assert run.process is not None
    run.process.send_signal(signal.SIGKILL)
    run.process.wait(60)
    child.wait(60)
    wait_until(lambda: not run.tree(), 60)
    before = len(lines(run))
    run.config.write_text(run.config.read_text().replace('"1h"', '"1s"'))
    run.start()
    wait_until(lambda: len(lines(run)) > before + 10, 120)
    found = set(lines(run))  # there are more by now
    assert sorted(found) == list(range(1, max(found) + 1))


def test_a_directory_that_a_sync_has_used_first_can_be_run(run: Run) -> None:
    run.config.write_text(run.config.read_text().replace("100000", "20"))
    assert run.cli("sync", str(run.config)).returncode == 0
    run.start()
    assert run.api("/api/syncs/numbers")["last"]["status"] == "succeeded"
    assert run.stop() == 0 and lines(run) == list(range(1, 21))


def test_an_embedded_server_of_a_sync_stays_up_with_the_run(run: Run) -> None:
    (run.folder / "in").mkdir()
    (run.folder / "in" / "people.csv").write_text("id,name\n1,a\n2,b\n")
    run.config.write_text(EMBEDDED)
    run.start()
    assert {"name": "postgres", "state": "ready"}.items() <= run.api("/api/health")["processes"][0].items()
    run.api("/api/syncs/people/run", "POST")
    wait_until(lambda: run.api("/api/syncs/people")["state"] != "running", 120, run.logs)
    assert run.api("/api/syncs/people")["last"]["status"] == "succeeded", run.logs()
    endpoint = read_endpoint(run.data_dir / "postgres")
    assert endpoint is not None
    with connect(endpoint) as connection:
        assert connection.execute("SELECT id, name FROM people ORDER BY id").fetchall() == [(1, "a"), (2, "b")]
    next_ms = run.api("/api/syncs/people")["next_ms"]
    assert next_ms % 86_400_000 == 0 and run.stop() == 0
