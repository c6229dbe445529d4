"""`world` is each provider of a test's `providers` mark; without the mark, every provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.scan_worlds import PROVIDERS, World, make_world, run_child


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("providers")
        metafunc.parametrize("world", PROVIDERS if mark is None else mark.args, indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return make_world(request.param, tmp_path)


_CHILD = """
import os, sys
from pathlib import Path
from helpers.root_hash import root_hash
from helpers.scan_worlds import PROVIDERS, doc, golden, make_world
folder, portion = Path(sys.argv[1]), int(sys.argv[2])
if portion == 1:
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
for name in PROVIDERS:
    world = make_world(name, folder / name)
    for number in range(0, 60, portion):
        world.emit_numbers(number, portion)
    world.emit(doc(3, "k3", gone=True))
    if portion == 1:
        world.compact()
    print(name, *root_hash(world.provider))
    print(name, golden(make_world(name, folder / f"golden-{name}")))
"""


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Root hashes and golden sequences of other processes, with other hash seeds and batch sizes, one of them on a
    single CPU."""
    runs = ((1, 1), (777, 20))
    return [run_child(_CHILD, tmp_path_factory.mktemp("child"), portion, seed=seed) for seed, portion in runs]
