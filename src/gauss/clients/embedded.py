"""Starts an embedded server, or finds the one that runs already."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gauss.clients.endpoint import Endpoint, owned, read_endpoint
from gauss.model.errors import GaussError, Unavailable, from_dict

START_SECONDS = 60.0
STOP_SECONDS = 20.0
SYSTEMS = ("clickhouse", "postgres")
KEPT_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"),
        *("GAUSS_RUN", "GAUSS_READY_FD"),
    }
)
"""Beside these, names that begin with LC_ or PYTHON."""


@dataclass
class Server:
    """An embedded server; `process` is its owner if this process started it, and then ends with this one."""

    endpoint: Endpoint
    process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """Ends the server in good order if this process started it."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        self.process = None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def environment() -> dict[str, str]:
    """The variables an embedded server gets: those it needs, not the secrets that a user keeps in others."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in KEPT_VARIABLES or name.startswith(("LC_", "PYTHON"))
    }


def command(system: str, directory: Path, port: int = 0) -> list[str]:
    """What a supervisor runs; it reports readiness on GAUSS_READY_FD and ends on SIGTERM."""
    return [
        sys.executable,
        "-m",
        f"gauss.clients.{system}.owner",
        str(directory),
        *(["--port", str(port)] if port else []),
    ]


def ensure(system: str, directory: Path, *, log: Path | None = None, port: int = 0) -> Server:
    """The server of a directory: the one that runs, else a new one that ends when this process does."""
    directory.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + START_SECONDS
    while True:
        if owned(directory):
            found = read_endpoint(directory)
            if found:
                return Server(found)
        else:
            try:
                return _start(system, directory, log or directory / "owner.log", port)
            except GaussError:
                if not owned(directory):  # else another process was quicker: its server will do
                    raise
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the embedded {system} in {directory} did not come up within {START_SECONDS:.0f} s",
                hint=f"see {log or directory / 'owner.log'}",
            )
        time.sleep(0.05)


def _start(system: str, directory: Path, log: Path, port: int) -> Server:
    ready, report = os.pipe()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command(system, directory, port), "--watch-stdin"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[report],
            env={**environment(), "GAUSS_READY_FD": str(report)},
            start_new_session=True,  # a Ctrl-C in the terminal is its starter's business
        )
    os.close(report)
    with os.fdopen(ready, "rb") as answers:
        line = _line(answers, START_SECONDS)
    message = json.loads(line) if line else {}
    if "error" in message:
        process.wait()
        raise from_dict(message["error"])
    endpoint = read_endpoint(directory)
    if not line or endpoint is None:
        process.kill()
        process.wait()
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise Unavailable(f"the embedded {system} in {directory} ended at its start: {last[0]}", hint=f"see {log}")
    return Server(endpoint, process)


def _line(answers: IO[bytes], seconds: float) -> bytes:
    if not select.select([answers], [], [], seconds)[0]:
        return b""
    return answers.readline()
