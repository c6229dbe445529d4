"""The demo of the fleet runs: each order that it sends becomes one row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.system
@pytest.mark.timeout(600)
def test_demo_of_the_fleet_finds_each_order_once_and_ends_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/fleet/demo.py"), "--seconds", "3"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Watch it in a browser: http://127.0.0.1:" in done.stdout
    assert done.stdout.strip().endswith("rows: each once")
