"""`python -m gauss.stream.flowtest.engines`: loads the engine once and forks one for each data directory on a line.

Says `{"pid": …}` and, once it is up, the engine's own ready line. When its input ends, all that it forked end too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys


def main() -> None:
    from gauss.stream.engine import __main__ as engine

    sys.meta_path.insert(0, engine.NoPandas)
    from gauss.stream.engine import runtime

    assert runtime.Engine is not None  # loaded here, and so in every child already
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    children = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.environ["GAUSS_READY_FD"] = str(os.dup(1))
            sys.argv[1:] = [line.strip()]
            engine.main()
        children.append(child)
        os.write(1, json.dumps({"pid": child}).encode() + b"\n")
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
