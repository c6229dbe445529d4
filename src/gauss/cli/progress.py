"""How far a long scan is, told on stderr to whoever looks at a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gauss.cli.rows import Rows
from gauss.model.errors import GaussError

if TYPE_CHECKING:
    from gauss.cli.client import Client

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.5


@contextmanager
def watched(client: Client, scan: int, rows: Rows, *, candidates: int, live: bool) -> Iterator[None]:
    """Shows the scan's way through its candidates while it takes longer than a second."""
    if live or not sys.stderr.isatty() or sys.stdout.isatty():  # rows on the terminal are progress enough
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(client, scan, rows, candidates, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(2)


def _watch(client: Client, scan: int, rows: Rows, candidates: int, done: threading.Event) -> None:
    began = time.monotonic()
    pause = AFTER_SECONDS
    wrote = False
    while not done.wait(pause):
        pause = EVERY_SECONDS
        try:
            found = next((row for row in client.get("scans")["scans"] if row["scan"] == scan), None)
        except GaussError:
            continue
        text = f"{rows.count:,} rows, {time.monotonic() - began:.0f} s"
        if found is not None and candidates:
            left = max(found["pinned_version"] - found["position"], 0)
            text = f"{100 * max(1 - left / candidates, 0):.0f} % of {candidates:,} records, {text}"
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
        wrote = True
    if wrote:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
