"""Runs the tool of a step, such as psql: its lines as events, its end by cancellation or deadline."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from gauss.dbstates.errors import ScriptFailed
from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.runtimes.runtime import ToolCall
from gauss.model.errors import GaussError
from gauss.process.guard import end_session

LINE_BYTES = 8 << 10
"""Longer lines are cut in events."""
MOST_LINES = 1000
"""Lines per stream in events."""
POLL_SECONDS = 0.02
KEPT_ERRORS = 5

log = logging.getLogger("gauss.dbstates")
Line = Callable[[str, str], None]
"""Called with `stdout` or `stderr`, and a line."""


def run_tool(call: ToolCall, control: JobControl, on_line: Line, *, most_lines: int | None = MOST_LINES) -> int:
    """Runs a tool to its end and returns its exit code."""
    process = subprocess.Popen(
        call.argv,
        env=dict(call.env),
        cwd=call.cwd,
        stdin=subprocess.DEVNULL if call.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    threads = [
        threading.Thread(target=_read, args=(process.stdout, "stdout", on_line, most_lines), daemon=True),
        threading.Thread(target=_read, args=(process.stderr, "stderr", on_line, most_lines), daemon=True),
    ]
    if call.stdin is not None:
        threads.append(threading.Thread(target=_feed, args=(process.stdin, call.stdin), daemon=True))
    for thread in threads:
        thread.start()
    try:
        while True:
            try:
                process.wait(POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                control.check()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        end_session(process.pid, 0)  # what the script has started too
        process.wait()
        for thread in threads:
            thread.join(1.0)
        if process.returncode:
            call.ended()
    return process.returncode


class StepOutput:
    """The output of a step: told as events, and its errors kept for the message of a failure."""

    def __init__(self, tell: Line) -> None:
        self._tell = tell
        self._errors: list[str] = []
        self._last = ""

    def line(self, stream: str, text: str) -> None:
        if stream == "stderr" and text.strip():
            self._last = text.strip()
            if len(self._errors) < KEPT_ERRORS and ("ERROR:" in text or "FATAL:" in text or "error:" in text):
                self._errors.append(text.strip())
        self._tell(stream, text)

    def failure(self, title: str, code: int) -> ScriptFailed:
        why = "; ".join(self._errors) or self._last or "no error output"
        return ScriptFailed(f"{title} failed with exit code {code}: {why}", hint="see the log events of the job")


def _read(stream: BinaryIO, name: str, on_line: Line, most: int | None) -> None:
    """Reads to the end whatever comes; only a bounded part becomes events, and none when they can't be stored."""
    count, tell = 0, _told_while_it_can_be(on_line)
    while line := stream.readline(LINE_BYTES):
        whole = line.endswith(b"\n")
        count += 1
        if most is None or count <= most:
            text = line.decode("utf-8", "replace").rstrip("\r\n").replace("\0", "\\0")
            tell(name, text if whole or len(line) < LINE_BYTES else f"{text}…")
        while most is not None and not whole and line:  # the rest of a long line
            line = stream.readline(LINE_BYTES)
            whole = line.endswith(b"\n")
    if most is not None and count > most:
        tell(name, f"… {count - most:,} more lines")
    stream.close()


def _told_while_it_can_be(on_line: Line) -> Line:
    """The function until it fails, as on a full disk: the tool must not wait for somebody to read its output."""
    fails = False

    def tell(name: str, text: str) -> None:
        nonlocal fails
        if not fails:
            try:
                on_line(name, text)
            except GaussError as error:
                fails = True
                log.warning("output of a tool is not told: %s", error.message)

    return tell


def _feed(stream: BinaryIO, content: bytes) -> None:
    with contextlib.suppress(OSError):  # the tool has ended without reading all
        stream.write(content)
    with contextlib.suppress(OSError):
        stream.close()


def with_statement_timeout(env: dict[str, str], seconds: float | None) -> dict[str, str]:
    """The environment with a time limit for each statement."""
    if not seconds:
        return env
    option = f"-c statement_timeout={max(int(seconds * 1000), 1)}"
    return {**env, "PGOPTIONS": f"{env.get('PGOPTIONS', '')} {option}".strip()}


def write_passfile(path: Path, password: str) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"*:*:*:*:{password}\n")
    return path
