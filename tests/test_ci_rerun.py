"""`.ci/run` runs a failed test once more, alone; only tests that pass then count as flaky."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SUITE = """
from pathlib import Path

def test_good():
    pass

def test_rare():
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "the first time"

def test_bad():
    assert False, "every time"
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "helpers").symlink_to(ROOT / "tests" / "helpers")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    return tmp_path


def run(suite: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Runs the given tests as `make test` does, then the failed ones again."""
    command = [sys.executable, "-m", "pytest", "-n", "2", "--failures=failures.json", *tests]
    subprocess.run(command, cwd=suite, capture_output=True, check=False)
    return again(suite)


def again(suite: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "rerun.py"), "failures.json"]
    return subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False)


def test_a_test_that_passes_alone_is_printed_as_flaky_with_its_first_failure(suite: Path) -> None:
    done = run(suite, "test_suite.py::test_good", "test_suite.py::test_rare")
    assert done.returncode == 0
    assert "flaky: test_suite.py::test_rare" in done.stdout
    assert "the first time" in done.stdout


def test_a_test_that_fails_twice_fails_the_run_beside_a_flaky_one(suite: Path) -> None:
    done = run(suite)
    assert done.returncode == 1
    assert "flaky: test_suite.py::test_rare" in done.stdout
    assert "failed twice: test_suite.py::test_bad" in done.stdout


def test_a_file_that_cannot_be_imported_fails_the_run(suite: Path) -> None:
    (suite / "test_broken.py").write_text("import nothing_of_this_name")
    assert run(suite, "test_broken.py").returncode == 1


def test_a_run_that_did_not_end_fails(suite: Path) -> None:
    assert again(suite).returncode == 1


@pytest.mark.parametrize(("code", "count"), [(3, 1), (1, 0), (1, 21)])
def test_an_internal_error_no_failures_or_too_many_fail_the_run(suite: Path, code: int, count: int) -> None:
    failed = {f"test_suite.py::test_good[{n}]": "" for n in range(count)}
    (suite / "failures.json").write_text(json.dumps({"exit": code, "failed": failed}))
    assert again(suite).returncode == 1
