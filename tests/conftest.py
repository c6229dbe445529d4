"""Settings of every test run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# One class archive for all JVMs that tests start: else each data directory would train one of its own.
os.environ.setdefault("GAUSS_CACHE_DIR", str(Path(__file__).parents[1] / ".cache"))

# A run under nohup would hand its deafness down, and `gauss run` honours it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

SERVERS = {"any_clickhouse", "clickhouse", "postgres"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs a server is no quick test, and says so by the fixture it asks for."""
    for item in items:
        if SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.system)
