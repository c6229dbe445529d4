"""A process that forks a writer per line of its input, and says how it ended.

A writer runs one sync into files. It kills itself before or after its n-th step that changes the file system, or is
killed after some time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.stream import Append, Replace, SyncMode
from gauss.plugins.connectors.file import atomic, writers
from helpers.killed_writers import serve
from plugins.connectors.file.syncing import Wanted, emits, move, numbers, writes

BATCH_ROWS = 4


def batch(number: int) -> Any:
    """Batch 1 has the rows 1 to 4, and so on."""
    return numbers(*range((number - 1) * BATCH_ROWS + 1, number * BATCH_ROWS + 1))


def die_at(step: int) -> None:
    """Kills this process at a step."""
    count = 0

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            tick()
            done = function(*args, **kwargs)
            tick()
            return done

        return call

    def tick() -> None:
        nonlocal count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, names in (
        (os, ["replace", "fsync", "rmdir", "unlink"]),
        (Path, ["rename", "unlink", "hardlink_to", "mkdir"]),
        (atomic, ["_exchange"]),
        (writers.FileWriter, ["write", "close"]),
    ):
        for name in names:
            setattr(owner, name, wrapped(getattr(owner, name)))


def write(order: dict[str, Any]) -> None:
    """One run, as ordered."""
    if order["exchange"] is False:
        atomic._exchange = lambda *_: False
    die_at(order["die_at"])
    wanted = Wanted(
        mode=SyncMode(order["mode"]),
        write=Replace() if order["replace"] else Append(),
        generation=order["generation"],
        cursor=Int64Cursor(order["cursor"]),
    )
    batches = [batch(number) for number in range(1, order["until"] + 1)]
    if order["mode"] == "full_refresh":
        batches = batches[order["cursor"] :]
    move(emits(*batches), writes(Path(order["path"]), format="jsonl", max_file_bytes=40), wanted).ok()


if __name__ == "__main__":
    serve(write)
