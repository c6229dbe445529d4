"""What the documents show is true: the README's pipeline passes the check, the demo runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GAUSS = str(Path(sys.executable).with_name("gauss"))


def test_files_named_in_the_walk_of_the_architecture_exist() -> None:
    named = re.findall(
        r"`((?:src/gauss|stream|plugins|scan|config|model|contracts|cli|api)/[\w/]+\.py)`",
        (ROOT / "ARCHITECTURE.md").read_text(),
    )
    assert named
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "src/gauss" / name).exists()]
    assert not missing


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
