"""A shell in which the commands of a page are typed one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from helpers.waiting import wait_until


class Shell:
    """A bash whose variables and background jobs last from one command to the next."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._folder = folder
        self._bash = subprocess.Popen(
            ["bash"], cwd=folder, env={**os.environ, "PATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def type(self, command: str, *, check: bool = True) -> str:
        """Runs a command; returns what it prints."""
        assert self._bash.stdin is not None and self._bash.stdout is not None
        self._bash.stdin.write(f'{command}\ncode=$?; echo; echo "ended: $code"\n')
        self._bash.stdin.flush()
        printed: list[str] = []
        for line in self._bash.stdout:
            if line.startswith("ended: "):
                code = int(line.removeprefix("ended: "))
                assert code == 0 or not check, f"{command}: {code}\n{''.join(printed)}"
                return "".join(printed).rstrip("\n") if code == 0 else ""
            printed.append(line)
        raise AssertionError(f"the shell ended at: {command}\n{''.join(printed)}")

    def wait_for(self, word: str, file: str, seconds: float) -> None:
        """Waits until a background job has written a word to its file, which it creates itself."""
        path = self._folder / file

        def text() -> str:
            return path.read_text() if path.exists() else ""

        wait_until(lambda: word in text(), seconds, lambda: f"{word} in {file}:\n{text()}")

    def close(self) -> None:
        """Stops the background jobs, the last one first, and the shell."""
        self.type("for job in $(jobs -p | tac); do kill $job; wait $job; done", check=False)
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
