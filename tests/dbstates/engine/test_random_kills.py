"""Some rounds of `make db-kills`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.clients.dbstates.client import start
from helpers.containers import use_podman
from helpers.dbstates import engine
from helpers.dbstates_kills import DbKills

pytestmark = [pytest.mark.system, pytest.mark.fault]


@pytest.fixture(scope="module")
def data_dir(fast_folder: Path) -> Iterator[Path]:
    folder = fast_folder / "random"
    with engine(folder):
        yield folder


@pytest.mark.parametrize(
    ("victim", "work"),
    [("server", "prepare"), ("engine", "delete"), ("engine", "reset"), ("engine", "warm")],
)
def test_a_kill_leaves_whole_states_and_nothing_else(victim: str, work: str, data_dir: Path, tmp_path: Path) -> None:
    DbKills(data_dir, tmp_path).round(victim, work, random.Random())


def test_a_killed_container_leaves_nothing(fast_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = use_podman(tmp_path, monkeypatch)
    data_dir = fast_folder / "random-containers"
    with engine(data_dir):
        start(data_dir).patch("config", body={"path": "container", "value": {"memory": "", "cpus": 0}})
        DbKills(data_dir, tmp_path / "scripts", image).round("container", "prepare", random.Random())
