"""Small real programs to be guarded, and a data directory that is held."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gauss.stream.control import guard
from gauss.stream.control.datadir import Held, hold


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
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.log.exists() and text in (found := self.log.read_text()):
                return found
            time.sleep(0.01)
        raise AssertionError(f"{text!r} never came; log: {self.log.read_text() if self.log.exists() else None!r}")

    def members(self) -> list[int]:
        return guard.session_members(self.process.pid)

    def let_go(self) -> None:
        """What the kernel does when control dies."""
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
def held(tmp_path: Path) -> Iterator[Held]:
    data = hold(tmp_path / "data")
    yield data
    data.release()
