"""Progress of a long scan, on stderr if that is a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gauss.cli.rows import RowPrinter
from gauss.model.errors import GaussError
from gauss.model.units import counted

if TYPE_CHECKING:
    from gauss.cli.client import RunClient

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.5
CLEAR = "\r\x1b[2K"


@contextmanager
def watched(client: RunClient, scan: int, rows: RowPrinter, *, candidates: int, live: bool) -> Iterator[None]:
    """Shows the progress of a scan that takes longer than a second."""
    if live or not sys.stderr.isatty():
        yield
        return
    progress = ProgressLine(client, scan, rows, candidates)
    if sys.stdout.isatty():  # printed rows show the progress
        rows.before_first = progress.end
    progress.start()
    try:
        yield
    finally:
        progress.end()


class ProgressLine(threading.Thread):
    """Rewrites one line until the scan ends."""

    def __init__(self, client: RunClient, scan: int, rows: RowPrinter, candidates: int) -> None:
        super().__init__(name="progress", daemon=True)
        self._client, self._scan, self._rows, self._candidates = client, scan, rows, candidates
        self._began = time.monotonic()
        self._done = threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        pause = AFTER_SECONDS
        while not self._done.wait(pause):
            pause = EVERY_SECONDS
            text = self._text()
            with self._writing:
                if not self._done.is_set():
                    sys.stderr.write(CLEAR + text)
                    sys.stderr.flush()

    def end(self) -> None:
        with self._writing:
            if not self._done.is_set() and time.monotonic() - self._began > AFTER_SECONDS:
                sys.stderr.write(CLEAR)
                sys.stderr.flush()
            self._done.set()

    def _text(self) -> str:
        text = f"{counted(self._rows.count, 'row')}, {time.monotonic() - self._began:.0f} s"
        try:
            scans = self._client.get("scans")["scans"]
        except GaussError:
            return text
        found = next((row for row in scans if row["scan"] == self._scan), None)
        if found is None or not self._candidates:
            return text
        left = max(found["pinned_version"] - found["position"], 0)
        if not left:  # the position in a table does not change during a scan
            return text
        return f"{100 * max(1 - left / self._candidates, 0):.0f} % of {self._candidates:,} records, {text}"
