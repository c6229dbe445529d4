"""Small real programs under a guard, and a process group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gauss.process import guard
from gauss.process.group import ProcessGroup
from helpers.waiting import wait_until


class Guarded:
    """A guard over a Python program, with the pipe that control would hold."""

    def __init__(self, program: str, log: Path) -> None:
        reading, self.pipe = os.pipe()
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(reading), str(log), sys.executable, "-S", "-c", program],
            pass_fds=(reading,),
            start_new_session=True,
        )
        os.close(reading)

    def wait_output(self, text: str, seconds: float = 60.0) -> str:
        def written() -> str:
            return self.log.read_text() if self.log.exists() else ""

        wait_until(lambda: text in written(), seconds, lambda: f"{text!r} in the log: {written()!r}")
        return written()

    def members(self) -> list[int]:
        return guard.session_members(self.process.pid)

    def let_go(self) -> None:
        """Closes the pipe, as the kernel does when control dies."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Callable[[str], Guarded]]:
    made: list[Guarded] = []

    def start(program: str) -> Guarded:
        made.append(Guarded(program, tmp_path / f"child-{len(made)}.log"))
        return made[-1]

    yield start
    for one in made:
        one.let_go()
        one.process.wait(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for a process group."""
    path = tmp_path / "run"
    path.mkdir()
    return path


@pytest.fixture
def group(folder: Path, tmp_path: Path) -> Iterator[ProcessGroup]:
    made = ProcessGroup.open(folder, tmp_path)
    yield made
    made.close()
