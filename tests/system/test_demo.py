"""The demo runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_demo_shows_quotes_and_candles_and_ends_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/12-market/demo.py"), "--seconds", "5"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BTCUSD" in done.stdout.split("in ClickHouse")[-1]
