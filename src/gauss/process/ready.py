"""The ready line: one JSON object that a started process writes to the descriptor named by GAUSS_READY_FD.

It is `{"ready": true, "pid": …, …}` once the process serves, or `{"error": …, "pid": …}` if it cannot.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

VARIABLE = "GAUSS_READY_FD"


def report(message: Mapping[str, Any]) -> None:
    """Writes the ready line of this process; without a reader, and the second time, does nothing."""
    descriptor = os.environ.pop(VARIABLE, "")
    if descriptor:
        os.write(int(descriptor), json.dumps({**message, "pid": os.getpid()}).encode() + b"\n")
        os.close(int(descriptor))


def read_ready(descriptor: int, seconds: float) -> dict[str, Any]:
    """Reads one ready line. Raises TimeoutError, or EOFError if the writer ended without a whole line."""
    heard = b""
    deadline = time.monotonic() + seconds
    waiting = select.poll()  # select takes no descriptor above 1023
    waiting.register(descriptor, select.POLLIN)
    while b"\n" not in heard:
        left = deadline - time.monotonic()
        if left <= 0 or not waiting.poll(left * 1000):
            raise TimeoutError
        more = os.read(descriptor, 65536)
        if not more:
            raise EOFError
        heard += more
    try:
        found = json.loads(heard.split(b"\n", 1)[0])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EOFError
    return found


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    **options: Any,
) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a process that reports readiness; returns it with the descriptor for `read_ready`.

    The environment is that of this process unless given; `options` are those of `subprocess.Popen`.
    """
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            list(command),
            env={**(os.environ if environment is None else environment), VARIABLE: str(writing)},
            pass_fds=(writing, *pass_fds),
            **options,
        )
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return process, reading


def last_line(path: Path) -> str:
    """The last line of a process's output: Python prints the error there."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "no output"
    return lines[-1].strip() if lines else "no output"
