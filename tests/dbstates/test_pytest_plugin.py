"""The fixture `gauss_db`, in a pytest of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gauss.clients.dbstates.client import DatabaseStates
from helpers.dbstates import write_scripts
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

TESTS = """
import psycopg, pytest

def count(db):
    with psycopg.connect(db.dsn) as connection:
        return connection.execute("SELECT count(*) FROM people").fetchone()[0]

@pytest.mark.parametrize("number", range(2))
def test_each_has_its_own(gauss_db, number):
    assert count(gauss_db) == 100
    with psycopg.connect(gauss_db.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM people")
    assert count(gauss_db) == 0
    gauss_db.reset()
    assert count(gauss_db) == 100

@pytest.mark.gauss_db("-f", "schema.sql")
def test_of_other_scripts(gauss_db):
    assert count(gauss_db) == 0

@pytest.mark.gauss_db("-f", "none.sql")
def test_of_missing_scripts(gauss_db):
    pass

@pytest.mark.gauss_db(imagge="x")
def test_of_a_wrong_option(gauss_db):
    pass
"""
WAITS = """
import time

def test_waits(gauss_db):
    print("database", gauss_db.made.instance, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(client: DatabaseStates, tmp_path: Path) -> Path:
    """A suite that uses the engine of the other tests."""
    data_dir = Path(client.place["lockfile"]).parents[2]
    write_scripts(tmp_path)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\ngauss_db = -f schema.sql -f seed.sql\ngauss_db_data_dir = {data_dir}\n"
    )
    return tmp_path


def instances(client: DatabaseStates) -> set[str]:
    return {row["instance_id"] for row in client.get("instances")["instances"]}


def test_each_test_has_a_database_of_its_own(client: DatabaseStates, folder: Path) -> None:
    (folder / "test_it.py").write_text(TESTS)
    before = instances(client)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "3 passed, 2 errors" in done.stdout, done.stdout
    assert "gauss_db: -f none.sql:1: expected a file none.sql" in done.stdout
    assert "gauss_db has no option imagge: expected kind or image" in done.stdout
    assert instances(client) == before


def test_no_database_outlives_a_killed_run(client: DatabaseStates, folder: Path) -> None:
    (folder / "test_it.py").write_text(WAITS)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        made = next(line.split()[-1] for line in process.stdout if "database" in line)
        assert made in instances(client)
        os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: made not in instances(client), 30, "it is removed")


def test_a_test_without_scripts_is_told_how_to_name_them(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(gauss_db):\n    pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=tmp_path, capture_output=True, check=False)
    assert b"gauss_db: no scripts are named" in done.stdout
