"""The real command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def gauss(tmp_path: Path) -> Gauss:
    """Runs `gauss ARGS` in the test's folder."""

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gauss.cli.main", *args],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "120", **env},
            timeout=60,
            check=False,
        )

    return run
