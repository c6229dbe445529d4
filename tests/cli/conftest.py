"""Runs the real command in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers import cli_parent

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def parent() -> Iterator[subprocess.Popen[str]]:
    """A parent process with the imports loaded, which forks a process per command."""
    command = [sys.executable, cli_parent.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def gauss(parent: subprocess.Popen[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Gauss:
    """Runs `gauss ARGS` in the test's folder."""
    folder = tmp_path_factory.mktemp("output")

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        out, err = folder / "out", folder / "err"
        for path in (out, err):
            path.unlink(missing_ok=True)
        given = {"args": args, "cwd": str(tmp_path), "env": {**os.environ, "COLUMNS": "120", **env}}
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(json.dumps({**given, "out": str(out), "err": str(err)}) + "\n")
        parent.stdin.flush()
        code = int(parent.stdout.readline())
        return subprocess.CompletedProcess(list(args), code, out.read_text(), err.read_text())

    return run
