"""The main loop of a process that owns an embedded server: lock, start, announce, wait, stop.

`python -m gauss.clients.<system>.owner DIRECTORY [--port N] [--watch-stdin]`. It ends on SIGTERM or SIGINT, when its
server dies, and with `--watch-stdin` when its standard input ends, that is when the process that started it is gone.
It reports readiness as `process/ready.py` describes.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from pathlib import Path
from typing import Protocol

from gauss.clients.endpoint import Endpoint, Identity, announce, identity, lock, withdraw
from gauss.model.errors import GaussError
from gauss.process.ready import report

LOCK_SECONDS = 10.0
_CHECK_SECONDS = 0.5


class OwnedServer(Protocol):
    """A server that lives in a directory."""

    def start(self, directory: Path, known: Identity) -> Endpoint: ...

    def died(self) -> str:
        """Why the server is gone; empty while it runs."""
        ...

    def stop(self) -> None: ...


def own(server: OwnedServer, argv: list[str]) -> int:
    """Runs a server until it is asked to end; returns the exit code, 0 for an orderly end."""
    parser = argparse.ArgumentParser(description="owns an embedded server; started by gauss")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--watch-stdin", action="store_true")
    args = parser.parse_args(argv)

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)

    directory: Path = args.directory.absolute()
    try:
        lock(directory, LOCK_SECONDS)
        withdraw(directory)
        endpoint = _started(server, directory, args.port)
    except GaussError as error:
        report({"error": error.to_dict()})
        print(f"{error.message} ({error.hint})" if error.hint else error.message, file=sys.stderr, flush=True)
        return 1
    announce(directory, endpoint)
    report({"ready": True, "host": endpoint.host, "port": endpoint.port})

    watched = [woken, 0] if args.watch_stdin else [woken]
    reason = ""
    while not reason:
        ended, _, _ = select.select(watched, [], [], _CHECK_SECONDS)
        if woken in ended:
            break
        if 0 in ended and not os.read(0, 4096):
            break
        reason = server.died()
    withdraw(directory)
    server.stop()
    if reason:
        print(reason, file=sys.stderr, flush=True)
    return 1 if reason else 0


def _started(server: OwnedServer, directory: Path, port: int) -> Endpoint:
    known = identity(directory, port)
    while True:
        try:
            return server.start(directory, known)
        except GaussError:
            server.stop()
            again = identity(directory, port)
            if again == known:
                raise
            known = again  # another process took its port in the meantime
