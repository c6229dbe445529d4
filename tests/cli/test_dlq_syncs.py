"""`gauss dlq` for rows that syncs rejected, without a run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.sync_connectors import CONNECTORS

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]
CONFIG = """
[[syncs]]
name = "numbers"
source = {{ connector = "sample:Numbers", rows = 12, folder = "{folder}" }}
destination = {{ connector = "sample:Lines", folder = "{folder}", bad = {bad} }}
streams = [{{ name = "a", mode = "incremental", cursor = "n" }}]
policies = {{ on_data_error = "dlq" }}
"""


def write(folder: Path, *bad: int) -> None:
    (folder / "sample.py").write_text(CONNECTORS)
    (folder / "gauss.toml").write_text(CONFIG.format(folder=folder, bad=list(bad)))


@pytest.fixture
def letters(gauss: Gauss, tmp_path: Path) -> None:
    write(tmp_path, 3, 7, 11)
    assert gauss("sync").returncode == 0


def lines(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "a.txt").read_text().split()]


def found(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("letters")
def test_letters_are_listed_and_shown_by_their_sync(gauss: Gauss) -> None:
    [group] = found(gauss("dlq", "ls", "--json"))["groups"]
    assert (group["sync"], group["reason"], group["stage"], group["count"]) == ("numbers", "BAD", "destination", 3)
    assert "sync numbers" in gauss("dlq", "ls").stdout
    shown = found(gauss("dlq", "show", "--json", "-n", "2"))["letters"]
    assert [letter["row"] for letter in shown] == [{"n": 11}, {"n": 7}] and shown[0]["number"] == 3
    text = gauss("dlq", "show", "--sync", "numbers").stdout
    assert "BAD (destination): 7 is bad" in text and '{"n": 7}' in text
    assert "no dead letters" in gauss("dlq", "ls", "--sync", "others").stdout


@pytest.mark.usefixtures("letters")
def test_a_replay_writes_what_is_good_now_and_returns_the_rest(gauss: Gauss, tmp_path: Path) -> None:
    write(tmp_path, 7)
    before = lines(tmp_path)
    done = found(gauss("dlq", "replay", "--all", "--json"))
    assert (done["replayed"], done["returned"], done["refused"]) == (3, 1, 0)
    assert lines(tmp_path) == [*before, 3, 11]
    assert "refused 2 times" in gauss("dlq", "show").stdout
    write(tmp_path)
    assert "1 replayed" in gauss("dlq", "replay", "--sync", "numbers", "1").stdout
    assert sorted(lines(tmp_path)) == list(range(1, 13)) and "no dead letters" in gauss("dlq", "ls").stdout
    assert gauss("sync").returncode == 0 and len(lines(tmp_path)) == 12


@pytest.mark.usefixtures("letters")
def test_letters_are_discarded_by_number_and_reason(gauss: Gauss) -> None:
    assert gauss("dlq", "discard", "--sync", "numbers", "2").returncode == 1  # not confirmed
    assert "1 dead letter discarded" in gauss("dlq", "discard", "--sync", "numbers", "2", "--yes").stdout
    assert [each["row"]["n"] for each in found(gauss("dlq", "show", "--json"))["letters"]] == [11, 3]
    assert "0 dead letters discarded" in gauss("dlq", "discard", "--reason", "LATE", "--yes").stdout
    assert "2 dead letters discarded" in gauss("dlq", "discard", "--reason", "BAD", "--yes").stdout


@pytest.mark.usefixtures("letters")
def test_a_replay_names_the_pipeline_that_it_needs(gauss: Gauss, tmp_path: Path) -> None:
    (tmp_path / "gauss.toml").write_text('[[topics]]\nname = "t"\nstorage = "memory"\n')
    refused = gauss("dlq", "replay", "--sync", "numbers")
    assert refused.returncode == 3 and 'has no sync "numbers"' in refused.stderr and "--file" in refused.stderr
    assert gauss("dlq", "replay").returncode == 1
    both = gauss("dlq", "ls", "--sync", "a", "--processor", "b")
    assert both.returncode == 1 and "give one of them" in both.stderr


def test_without_a_run_and_without_syncs_there_is_nothing_to_list(gauss: Gauss) -> None:
    assert gauss("dlq", "ls").returncode == 4
