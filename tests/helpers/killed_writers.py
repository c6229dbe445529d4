"""Writers that are killed: a process that forks one writer per order, and the client that sends it orders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class WriterProcess:
    """A script that calls `serve`, started with the tests in PYTHONPATH."""

    def __init__(self, script: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )

    def run(self, order: dict[str, Any]) -> bool:
        """Runs one writer; returns False if it was killed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        return code == 0

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


def serve(write: Callable[[dict[str, Any]], None]) -> None:
    """Forks a writer per line of the input, an order as JSON, and prints its exit code. A writer is killed after
    `kill_after_s` of its order."""
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            try:
                write(order)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        if order.get("kill_after_s") is not None:
            time.sleep(order["kill_after_s"])
            os.kill(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
