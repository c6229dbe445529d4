"""Runs the tool of a step, such as psql: what reads its output, its end by cancellation or deadline."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.output import chunks
from gauss.dbstates.runtimes.runtime import ToolCall
from gauss.model.errors import ConfigError, Unavailable
from gauss.process.guard import end_session

POLL_SECONDS = 0.02
FEED_SECONDS = 1.0

Reader = Callable[[str, Iterator[bytes]], None]
"""Called in a thread of its own with `stdout` or `stderr`, and what the tool writes there."""


def run_tool(call: ToolCall, control: JobControl, read: Reader) -> int:
    """Runs a tool to its end and returns its exit code, when all of its output has been read. Raises the error of a
    reader, or of `control`."""
    process = _started(call)
    assert process.stdout is not None and process.stderr is not None
    ended, failed = threading.Event(), list[Exception]()
    readers = [
        threading.Thread(target=_read, args=(name, stream, read, ended, failed), daemon=True)
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
    ]
    feeder = threading.Thread(target=_feed, args=(process.stdin, call.stdin), daemon=True)
    for thread in readers if call.stdin is None else [*readers, feeder]:
        thread.start()
    try:
        while True:
            try:
                process.wait(POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                control.check()
    finally:
        process.kill()
        end_session(process.pid, 0)  # what the script has started too
        process.wait()
        ended.set()
        for thread in readers:
            thread.join()
        if call.stdin is not None:
            feeder.join(FEED_SECONDS)
        if process.returncode:
            call.ended()
    if failed:
        raise failed[0]
    return process.returncode


def _started(call: ToolCall) -> subprocess.Popen[bytes]:
    tool = Path(call.argv[0]).name
    try:
        return subprocess.Popen(
            call.argv,
            env=dict(call.env),
            cwd=call.cwd,
            stdin=subprocess.DEVNULL if call.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise ConfigError(
                f"the arguments of {tool} are longer than the system allows (128 KiB each)",
                hint="put the text into a file, and name that with -f",
            ) from None
        if not call.cwd.is_dir():
            raise ConfigError(f"cwd: there is no folder {call.cwd}", hint="name an existing folder") from None
        raise Unavailable(f"{tool} can't be started: {error.strerror}", hint="try again") from error
    except ValueError:
        raise ConfigError(f"arguments or environment of {tool} contain a NUL", hint="leave it out") from None


def _read(name: str, stream: BinaryIO, read: Reader, ended: threading.Event, failed: list[Exception]) -> None:
    found = chunks(stream, ended)
    try:
        read(name, found)
    except Exception as error:
        failed.append(error)
        for _ in found:  # the tool must not wait for a reader that has failed
            pass
    finally:
        stream.close()


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
