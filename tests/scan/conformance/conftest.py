"""`world` is every provider that a test's `providers` mark names; without the mark, all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.scan_worlds import PROVIDERS, World, make_world


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("providers")
        metafunc.parametrize("world", PROVIDERS if mark is None else mark.args, indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return make_world(request.param, tmp_path)
