"""Fixtures of the system tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.run import Run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder starts a whole run."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)


@pytest.fixture
def gauss(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    """Makes runs; each is ended when the test ends."""
    runs: list[Run] = []

    def make(config: str) -> Run:
        folder = tmp_path / f"run{len(runs)}"
        folder.mkdir()
        runs.append(Run(folder, config))
        return runs[-1]

    yield make
    for run in runs:
        run.end()
