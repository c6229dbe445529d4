from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gauss.clients.endpoint import Endpoint, announce, lock

if TYPE_CHECKING:
    from .conftest import Gauss


@pytest.mark.parametrize(
    ("arguments", "file"),
    [([], "gauss.toml"), (["market"], "market/gauss.toml"), (["deep/market.toml"], "deep/market.toml")],
)
def test_starter_is_written_and_passes_the_check(gauss: Gauss, tmp_path: Path, arguments: list[str], file: str) -> None:
    assert gauss("new", *arguments).returncode == 0
    assert "# A topic stores records" in (tmp_path / file).read_text()
    done = gauss("check", file, "--offline")
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


def test_existing_file_is_never_overwritten(gauss: Gauss, tmp_path: Path) -> None:
    (tmp_path / "gauss.toml").write_text("mine")
    done = gauss("new")
    assert done.returncode == 1
    assert "already exists" in done.stderr
    assert (tmp_path / "gauss.toml").read_text() == "mine"


def test_json_names_the_file(gauss: Gauss) -> None:
    assert json.loads(gauss("new", "a.toml", "--json").stdout) == {"file": "a.toml"}


def test_kafka_starter_passes_the_check_with_and_without_the_variable(gauss: Gauss, tmp_path: Path) -> None:
    assert gauss("new", "--kafka").returncode == 0
    assert "${KAFKA_BROKERS:-127.0.0.1:9092}" in (tmp_path / "gauss.toml").read_text()
    for environment in ({}, {"KAFKA_BROKERS": "127.0.0.1:9094"}):
        done = gauss("check", "--offline", **environment)
        assert done.returncode == 0 and "warning" not in done.stdout, done.stdout


def test_kafka_starter_names_the_broker_that_runs_here(gauss: Gauss, tmp_path: Path) -> None:
    directory = tmp_path / ".gauss" / "kafka"
    held = lock(directory, 0)  # as its owner process does
    announce(directory, Endpoint("kafka", "127.0.0.1", 23456, "", "", ""))
    gauss("new", "--kafka")
    os.close(held)
    assert "${KAFKA_BROKERS:-127.0.0.1:23456}" in (tmp_path / "gauss.toml").read_text()
