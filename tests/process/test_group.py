"""Process groups: a new group ends the leftovers of a dead one, and waits for its lock."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gauss.model.errors import StorageError
from gauss.model.files import write_private
from gauss.process import group as group_module
from gauss.process.group import ProcessGroup
from gauss.process.identity import GROUP_VARIABLE, boot_id, start_time
from helpers.waiting import wait_until


def _leave_group(folder: Path, identity: str, *, in_environment: str) -> subprocess.Popen[bytes]:
    """A folder as left by a dead parent: a recorded session leader that holds the lock of its group."""
    group = ProcessGroup.open(folder, folder)
    left = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
        env={**os.environ, GROUP_VARIABLE: in_environment},
        pass_fds=(group.lock_fd,),
        start_new_session=True,
    )
    # Before exec the child still has the test's environment.
    wait_until(lambda: in_environment.encode() in Path(f"/proc/{left.pid}/environ").read_bytes())
    group.identity = identity
    group.record("engine", left.pid)
    os.close(group.lock_fd)
    return left


@pytest.mark.fault
def test_leftover_of_a_dead_group_is_ended_by_its_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "LEFTOVER_SECONDS", 1.0)
    left = _leave_group(folder, "run-a", in_environment="run-a")
    group = ProcessGroup.open(folder, folder)
    assert group.ended == [left.pid]
    assert left.wait(60) == -9
    assert group.generation == 2
    group.close()


@pytest.mark.fault
def test_process_that_only_has_the_recorded_number_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "LEFTOVER_SECONDS", 0.1)
    stranger = _leave_group(folder, "run-a", in_environment="run-b")
    try:
        with pytest.raises(StorageError, match="still hold"):
            ProcessGroup.open(folder, folder)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_record_of_another_boot_ends_nobody(folder: Path) -> None:
    me = os.getpid()
    record = {"run": "x", "generation": 4, "boot_id": "other", "processes": [{"pid": me, "start_time": start_time(me)}]}
    write_private(folder / "processes.json", record)
    assert boot_id() != "other"
    group = ProcessGroup.open(folder, folder)
    assert group.ended == [] and group.generation == 5
    group.close()


def test_new_group_waits_while_the_old_one_lets_go(folder: Path) -> None:
    path = folder / "7.lock"
    path.touch()
    holder = subprocess.Popen(
        [sys.executable, "-S", "-c", "import fcntl,sys,time; f=open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_SH);"
         "print('held', flush=True); time.sleep(0.5)", str(path)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    group = ProcessGroup.open(folder, folder)
    assert holder.wait(60) == 0
    assert group.generation == 8
    group.close()


def test_processes_of_a_group_hold_its_lock_by_inheritance(group: ProcessGroup) -> None:
    with group.lock.open("r+") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
