"""Runs a command as long as a lease holds. `python -m gauss.fleet.worker.leased_run COMMAND`.

A worker that is suspended can't stop what it has started, while another one takes its slot: so this process does it. It
reads deadlines by `clock` from stdin, a line each, and kills the command when the last one has passed; an end of stdin
asks the command to end.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys

from gauss.fleet.leases.keeper import clock

LOOK_SECONDS = 0.1
STOP_SECONDS = 15.0


def main(command: list[str]) -> int:
    deadline, stop_at = _line(), float("inf")
    if deadline is None:
        return 0
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while child.poll() is None:
        if select.select([sys.stdin] if stop_at == float("inf") else [], [], [], LOOK_SECONDS)[0]:
            newer = _line()
            if newer is None:
                child.send_signal(signal.SIGTERM)
                stop_at = clock() + STOP_SECONDS
            else:
                deadline = newer
        if clock() > min(deadline, stop_at):
            child.kill()
    return child.wait()


def _line() -> float | None:
    """The next deadline; None at the end."""
    text = sys.stdin.readline()
    return float(text) if text.endswith("\n") else None


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the worker decides when it ends
    sys.exit(main(sys.argv[1:]))
