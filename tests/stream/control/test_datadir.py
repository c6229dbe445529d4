from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.model.errors import ConfigError, StorageError
from gauss.model.files import read_json
from gauss.stream.control.datadir import Held, hold


def test_new_directory_gets_version_and_folders(tmp_path: Path) -> None:
    held = hold(tmp_path / "a" / "b")
    assert held.paths.version.read_text() == "1\n"
    assert held.paths.topics.is_dir() and held.paths.logs.is_dir()
    assert stat.S_IMODE(held.paths.run.stat().st_mode) == 0o700
    held.release()


def modes(root: Path) -> dict[str, int]:
    """Permissions for group and others of all files in a tree."""
    return {str(path): stat.S_IMODE(path.stat().st_mode) & 0o077 for path in [root, *root.rglob("*")]}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_new_directory_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    held = hold(tmp_path / "data")
    held.group.record("guard", os.getpid())
    (held.paths.logs / "engine.log").write_text("")
    assert not any(modes(tmp_path / "data").values())
    held.release()


@pytest.mark.usefixtures("open_umask")
def test_existing_directory_is_closed_to_others(tmp_path: Path) -> None:
    root = tmp_path / "data"
    hold(root).release()
    (root / "topics" / "t").mkdir()
    (root / "topics" / "t" / "records.log").write_text("")
    (root / "link").symlink_to(tmp_path / "nowhere")
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)
    hold(root).release()
    (root / "link").unlink()
    assert not any(modes(root).values())
    assert stat.S_IMODE((root / "topics" / "t").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "topics" / "t" / "records.log").stat().st_mode) == 0o600


def test_another_format_version_is_refused_with_both_numbers(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("99\n")
    with pytest.raises(ConfigError, match="has format version 99, this Gauss reads 1"):
        hold(tmp_path)


def test_folder_with_other_files_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match=r"contains thesis\.tex but no VERSION"):
        hold(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_unwritable_place_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't be used: Not a directory"):
        hold(tmp_path / "file" / "data")


def test_second_holder_is_told_the_pid_of_the_first(held: Held) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from gauss.stream.control.datadir import hold\n"
        "try: hold(Path(sys.argv[1]))\n"
        "except Exception as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(held.paths.root)], capture_output=True, text=True, check=True
    ).stdout
    assert "already running" in said and f"pid {os.getpid()}, since 20" in said


def test_directory_can_be_held_again_after_release(tmp_path: Path) -> None:
    hold(tmp_path / "d").release()
    again = hold(tmp_path / "d")
    assert again.group.ended == []
    again.release()


def test_announce_is_private_and_goes_with_the_release(tmp_path: Path) -> None:
    held = hold(tmp_path / "d")
    held.announce("http://127.0.0.1:1", "secret")
    assert stat.S_IMODE(held.paths.engine_json.stat().st_mode) == 0o600
    assert read_json(held.paths.engine_json) == {
        "pid": os.getpid(), "endpoint": "http://127.0.0.1:1", "token": "secret",
    }  # fmt: skip
    held.release()
    assert not held.paths.engine_json.exists()


def test_half_written_json_reads_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"a": 1})[:4])
    assert read_json(tmp_path / "x.json") is None
