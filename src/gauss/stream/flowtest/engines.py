"""`python -m gauss.stream.flowtest.engines`: imports the engine once and forks one per data directory read from stdin.

Each engine writes its ready line (`process/ready.py`) to standard output. When the input ends, all engines are killed.
"""

from __future__ import annotations

import os
import signal
import sys

from gauss.process.ready import VARIABLE


def main() -> None:
    from gauss.stream.engine import __main__ as engine

    sys.meta_path.insert(0, engine.NoPandas)
    from gauss.stream.engine import runtime

    assert runtime.Engine is not None  # imported before the fork, so that every child has it
    children = []  # not waited for: the pid of one that has ended must not become a stranger's before the end
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.environ[VARIABLE] = str(os.dup(1))
            sys.argv[1:] = [line.strip()]
            engine.main()
        children.append(child)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
