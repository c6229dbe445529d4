from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.model.errors import ConfigError, StorageError
from gauss.model.files import read_json, write_private
from gauss.stream.control import datadir
from gauss.stream.control.datadir import Held, hold
from gauss.stream.control.processes import RUN_VARIABLE, boot_id, start_time


def test_new_directory_gets_version_and_folders(tmp_path: Path) -> None:
    held = hold(tmp_path / "a" / "b")
    assert held.paths.version.read_text() == "1\n"
    assert held.paths.topics.is_dir() and held.paths.logs.is_dir()
    assert stat.S_IMODE(held.paths.run.stat().st_mode) == 0o700
    held.release()


def modes(root: Path) -> dict[str, int]:
    """Permissions that others have in a tree."""
    return {str(path): stat.S_IMODE(path.stat().st_mode) & 0o077 for path in [root, *root.rglob("*")]}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_new_directory_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    held = hold(tmp_path / "data")
    held.record("guard", os.getpid())
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
    with pytest.raises(ConfigError, match=r"holds thesis\.tex and no VERSION"):
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
    assert again.ended == []
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


def _leave_run(root: Path, run: str, *, in_environment: str) -> subprocess.Popen[bytes]:
    """A directory as a dead control leaves it: a recorded session leader that holds the run's lock."""
    held = hold(root)
    left = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
        env={**os.environ, RUN_VARIABLE: in_environment},
        pass_fds=(held.run_lock_fd,),
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    # Until exec the environment is still the test's own.
    while in_environment.encode() not in Path(f"/proc/{left.pid}/environ").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    held.run = run
    held.record("engine", left.pid)
    os.close(held.run_lock_fd)
    os.close(held.lock_fd)
    return left


@pytest.mark.fault
def test_leftover_of_a_dead_run_is_ended_by_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datadir, "LEFTOVER_SECONDS", 1.0)
    left = _leave_run(tmp_path / "d", "run-a", in_environment="run-a")
    held = hold(tmp_path / "d")
    assert held.ended == [left.pid]
    assert left.wait(60) == -9
    assert held.generation == 2
    held.release()


@pytest.mark.fault
def test_process_that_only_has_the_recorded_number_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datadir, "LEFTOVER_SECONDS", 0.1)
    stranger = _leave_run(tmp_path / "d", "run-a", in_environment="run-b")
    try:
        with pytest.raises(StorageError, match="still hold"):
            hold(tmp_path / "d")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_record_of_another_boot_ends_nobody(tmp_path: Path) -> None:
    me = os.getpid()
    hold(tmp_path / "d").release()
    record = {"run": "x", "generation": 4, "boot_id": "other", "processes": [{"pid": me, "start_time": start_time(me)}]}
    write_private(tmp_path / "d" / "run" / "processes.json", record)
    assert boot_id() != "other"
    held = hold(tmp_path / "d")
    assert held.ended == [] and held.generation == 5
    held.release()


def test_new_run_waits_while_the_old_one_lets_go(tmp_path: Path) -> None:
    hold(tmp_path / "d").release()
    path = tmp_path / "d" / "run" / "7.lock"
    path.touch()
    holder = subprocess.Popen(
        [sys.executable, "-S", "-c", "import fcntl,sys,time; f=open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_SH);"
         "print('held', flush=True); time.sleep(0.5)", str(path)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    held = hold(tmp_path / "d")
    assert holder.wait(60) == 0
    assert held.generation == 8
    held.release()


def test_children_of_a_run_hold_its_lock_by_inheritance(held: Held) -> None:
    with held.run_lock.open("r+") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_half_written_json_reads_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"a": 1})[:4])
    assert read_json(tmp_path / "x.json") is None
