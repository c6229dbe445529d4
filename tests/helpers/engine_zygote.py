"""Imports the engine once and forks one per line of input, so that a test can kill dozens of them in seconds.

Says `{"pid": …}` and, once it is up, the engine's own `{"ready": true, …}`, each on a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from gauss.stream.engine import __main__ as engine
from gauss.stream.engine import runtime


def main() -> None:
    assert runtime.Engine is not None  # imported here, and so in every child already
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            os.environ["GAUSS_READY_FD"] = str(os.dup(1))
            engine.main()
        os.write(1, json.dumps({"pid": child}).encode() + b"\n")
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
