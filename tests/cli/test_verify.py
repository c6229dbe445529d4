"""`gauss verify` and `gauss repair` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gauss.cli import main as cli
from helpers.directories import WHOLE, fill, opened


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("origin"))


@pytest.fixture
def directory(origin: Path, tmp_path: Path) -> Path:
    shutil.copytree(origin, tmp_path / "data")
    return tmp_path / "data"


def typed(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in words])
    return int(ended.value.code or 0)


def damage(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)


def test_sound_directory_ends_with_0_and_a_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("verify", directory) == 0
    assert "50 records" in (told := capsys.readouterr().out) and "nothing is damaged" in told


def test_damage_ends_with_1_and_names_file_and_records(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = min((directory / "topics" / "b").glob("*.log"))
    damage(log, 5)
    damage(directory / "journal" / "commits", 40)
    assert typed("verify", directory) == 1
    told = capsys.readouterr().out
    assert str(log) in told and "commits" in told and "2 found damaged" in told and "gauss repair" in told


def test_json_is_one_document_with_the_findings(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(directory / "journal" / "commits", 40)
    assert typed("verify", directory, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert [choice["name"] for choice in found["findings"][0]["choices"]] == ["keep", "cut"]
    assert {topic["name"] for topic in found["topics"]} >= {"b", "_dead"}


def test_repair_without_a_yes_shows_choices_and_changes_nothing(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = directory / "journal" / "commits"
    damage(journal, 40)
    before = journal.read_bytes()
    assert typed("repair", directory, "--choose", "keep") == 1
    told = capsys.readouterr().out
    assert "keep every record" in told and "are set aside" in told and "nothing was changed" in told
    assert journal.read_bytes() == before


def test_repair_with_a_yes_mends_and_the_directory_opens(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(directory / "journal" / "commits", 40)
    assert typed("repair", directory, "--choose", "keep", "--yes") == 0
    assert "was rewritten" in capsys.readouterr().out
    assert typed("verify", directory) == 0
    assert opened(directory)[0] == WHOLE


def test_only_one_finding_is_mended_when_asked(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(directory / "journal" / "commits", 40)
    damage(min((directory / "topics" / "b").glob("*.log")), 5)
    assert typed("repair", directory, "--only", "2", "--choose", "drop", "--yes") == 1
    capsys.readouterr()
    assert typed("verify", directory, "--json") == 1
    assert [finding["kind"] for finding in json.loads(capsys.readouterr().out)["findings"]] == ["journal"]


def test_unknown_choice_is_refused_with_the_known_ones(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(directory / "journal" / "commits", 40)
    assert typed("repair", directory, "--choose", "magic", "--yes") == 1
    assert "keep, cut, drop" in capsys.readouterr().err


def test_folder_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("verify", tmp_path / "nowhere") == 3
    assert "is not a directory" in capsys.readouterr().err
