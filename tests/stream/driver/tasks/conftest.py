"""Engines with chains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.stream.driver.tasks import reading
from helpers.chain_worlds import World


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Any]:
    made: list[World] = []

    def make(given: dict[str, Any]) -> World:
        made.append(World(tmp_path / str(len(made)), given))
        return made[-1]

    yield make
    for world in made:
        world.close()
    reading.engine.cache_clear()
