"""Runs the tests that failed once more, each alone: `rerun.py FAILURES`, a file that `pytest --failures` wrote.

Exits with 0 if every one of them passes now, and prints each as `flaky: …` with its first failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# More failures than this are no accident: the run fails without a second look.
MOST = 20
TESTS_FAILED = 1


def main(path: Path) -> int:
    if not path.exists():
        print("The test run wrote no list of failures: it did not come to its end.")
        return 1
    run = json.loads(path.read_text())
    failed: dict[str, str] = run["failed"]
    if run["exit"] != TESTS_FAILED or not failed:
        print(f"The test run ended with {run['exit']}, not with failed tests: nothing to run again.")
        return 1
    if len(failed) > MOST:
        print(f"{len(failed)} tests failed; only up to {MOST} are run again.")
        return 1
    return max([again(test, first) for test, first in failed.items()])


def again(test: str, first: str) -> int:
    second = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", test], capture_output=True, text=True, check=False
    )
    if second.returncode == 0:
        print(f"flaky: {test} failed first and passed alone. Its first failure:\n{first}\n")
        return 0
    print(f"failed twice: {test}\n{second.stdout}{second.stderr}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
