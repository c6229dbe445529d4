"""Waiting for events of other threads and processes."""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

SHORTEST, LONGEST = 0.005, 0.1


def wait_until(condition: Callable[[], Any], seconds: float = 60.0, what: object = "") -> Any:
    """Waits for the condition to be true; returns its value. Fails with `what` (or its result) after `seconds`. A
    condition that raises an HTTP 503 is tried again: the engine is too busy to answer."""
    deadline, pause = time.monotonic() + seconds, SHORTEST
    while True:
        try:
            if found := condition():
                return found
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {(what() if callable(what) else what) or condition}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST)


def stays(condition: Callable[[], object], seconds: float, what: object = "") -> None:
    """Fails if the condition is false at any time within `seconds`; for things that must not happen and so have no
    event."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"not for {seconds} s: {(what() if callable(what) else what) or condition}"
        time.sleep(SHORTEST)


def suspend(process: psutil.Process) -> None:
    """Sends SIGSTOP and waits until all threads have stopped, which takes a while on a busy machine."""
    process.suspend()
    wait_until(lambda: all(_is_stopped(thread.id) for thread in process.threads()), what=f"{process} stops")


def _is_stopped(thread: int) -> bool:
    try:
        stat = Path(f"/proc/{thread}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the process has ended
        return True
    return stat.rpartition(")")[2].split()[0] in "TZ"
