"""Runs a command on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence
from pathlib import Path


def on_terminal(command: Sequence[str], *, cwd: Path, columns: int = 120, seconds: float = 120.0) -> tuple[int, bytes]:
    """The exit code and output of the command; the terminal is "dumb", so that there is no reason for escape
    sequences."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, cwd=cwd, env={**env, "TERM": "dumb"}, start_new_session=True
    )
    os.close(inner)
    pieces: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # Linux reports the end of a pseudo-terminal as an error
            while piece := os.read(outer, 65536):
                pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        code = process.wait(seconds)
    finally:
        process.kill()
        reader.join(10)
        os.close(outer)
    return code, b"".join(pieces)
