"""Imports what every `gauss` command needs, then forks a process for each line of input.

A line is `{"args": [...], "cwd": ..., "env": {...}, "out": FILE, "err": FILE}`; the reply is the exit code.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import gauss.cli.check
import gauss.cli.graph
import gauss.config.check
from gauss.cli.main import main

LIGHT = not {"pyarrow", "numpy", "pyspark"} & set(sys.modules)


def run(given: dict[str, Any]) -> int:
    """Runs the command in the forked child."""
    os.chdir(given["cwd"])
    os.environ.clear()
    os.environ.update(given["env"])
    for number, path in enumerate((os.devnull, given["out"], given["err"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
    try:
        main(given["args"])
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def serve() -> None:
    assert LIGHT and gauss.cli.check and gauss.cli.graph and gauss.config.check  # each command imports the rest itself
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = run(json.loads(line))
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
