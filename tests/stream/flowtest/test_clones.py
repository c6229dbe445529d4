"""Clones of prepared databases for cases, by a real engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates
from gauss.model.errors import GaussError
from gauss.stream.flowtest.clones import AHEAD, Clones
from gauss.stream.flowtest.judge import Suite, read_suites
from helpers.dbstates import engine, write_scripts
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

PIPELINE = """
[[databases]]
name = "shop"
prepare = { args = ["-f", "schema.sql", "-f", "seed.sql"] }

[[topics]]
name = "people"
storage = "memory"

[[processors]]
name = "read"
plugin = "pg-source"
target = { topic = "people" }
config = { database = "shop", table = "people" }
"""
CASES = """
[[cases]]
name = "all are read"
expect = [{ topic = "people", count = 100 }]
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseStates]:
    with engine(tmp_path_factory.mktemp("clones")) as found:
        yield found


@pytest.fixture
def data_dir(client: DatabaseStates) -> Path:
    return Path(client.place["lockfile"]).parents[2]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    write_scripts(tmp_path)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "pipeline.test.toml").write_text(CASES)
    return read_suites([tmp_path / "pipeline.test.toml"])[0]


def _count(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT count(*) FROM people").fetchone()
        assert row is not None
        return int(row[0])


def _instances(client: DatabaseStates) -> int:
    return len(client.get("instances")["instances"])


def test_no_case_sees_what_another_one_did_and_none_leaves_its_clone(
    client: DatabaseStates, data_dir: Path, suite: Suite, tmp_path: Path
) -> None:
    clones = Clones(data_dir, [suite] * 5, tmp_path / "lock")
    for number in range(5):
        dsn = clones.take(number)["shop"]
        assert _count(dsn) == 100
        with psycopg.connect(dsn) as connection:
            connection.execute("DELETE FROM people")
        clones.drop(number)
        assert _instances(client) <= AHEAD + 2
    clones.close()
    assert _instances(client) == 0


def test_clones_end_with_the_process_that_held_them(
    client: DatabaseStates, data_dir: Path, suite: Suite, tmp_path: Path
) -> None:
    clones = Clones(data_dir, [suite], tmp_path / "lock")
    clones.take(0)
    assert [row["held"] for row in client.get("instances")["instances"]] == [True]
    clones._holder.close()  # as the kernel does when the process is killed
    wait_until(lambda: _instances(client) == 0, 10, "the clone is gone")


def test_closing_ends_a_script_that_hangs(client: DatabaseStates, data_dir: Path, suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "seed.sql").write_text("SELECT pg_sleep(600);")
    clones = Clones(data_dir, [suite], tmp_path / "lock")
    raised: list[GaussError] = []

    def take() -> None:
        try:
            clones.take(0)
        except GaussError as error:
            raised.append(error)

    waiting = threading.Thread(target=take)
    waiting.start()
    wait_until(lambda: any(job["status"] == "running" for job in client.get("prepare-jobs")["jobs"]))
    began = time.monotonic()
    clones.close()
    waiting.join(5)
    assert time.monotonic() - began < 5
    assert 'database "shop": the client that asked for the job has ended' in raised[0].message
    assert _instances(client) == 0
