"""Fixtures of the system tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.run import Run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder as `system`, since each starts a whole run."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)


@pytest.fixture
def gauss(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    """Creates runs, and ends them after the test."""
    runs: list[Run] = []

    def make(config: str) -> Run:
        folder = tmp_path / f"run{len(runs)}"
        folder.mkdir()
        runs.append(Run(folder, config))
        return runs[-1]

    yield make
    for run in runs:
        run.end()
