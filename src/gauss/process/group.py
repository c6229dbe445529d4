"""The children of one parent: their common lock, and the record by which the next parent ends those left behind."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gauss.model.errors import StorageError
from gauss.model.files import read_json, write_private
from gauss.process import locks
from gauss.process.descriptors import Reserve
from gauss.process.identity import boot_id, end_leftovers, guarded, start_time

LEFTOVER_SECONDS = 10.0
RECORD = "processes.json"

log = logging.getLogger("gauss.process")


class ProcessGroup:
    """The processes that one parent starts, from `open` to `close`.

    Its folder holds files of this group only (the record, the lock, whatever the parent adds) and is emptied at both
    ends. The parent must hold a lock of its own, so that a folder has one group at a time.
    """

    def __init__(self, folder: Path, logs: Path, generation: int, ended: list[int]) -> None:
        self.folder = folder
        self.logs = logs
        """The folder for the output of its processes."""
        self.generation = generation
        """One more than that of the previous group, unless that one was closed in good order."""
        self.ended = ended
        """Processes that the previous group left and that had to be ended."""
        self.identity = uuid.uuid4().hex
        """In the environment of every process of the group."""
        self.lock = folder / f"{generation}.lock"
        """Every process of the group inherits this lock and holds it as long as it lives."""
        self.lock.touch(0o600)
        self.lock_fd = locks.share(self.lock)
        self.reserve = Reserve()
        self._processes: dict[str, dict[str, Any]] = {}
        self._record_lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, logs: Path) -> ProcessGroup:
        """Ends what the previous group left in the folder, and starts a new one."""
        record = read_json(folder / RECORD) or {}
        held = [path for path in folder.glob("*.lock") if path.stem.isdigit()]
        ended = _end_previous(record, held)
        generation = max([*(int(path.stem) for path in held), int(record.get("generation", 0))]) + 1
        _empty(folder)
        return cls(folder, logs, generation, ended)

    def record(self, name: str, pid: int) -> None:
        """Notes the guard of a child on disk."""
        with self._record_lock:
            self._processes[name] = {"name": name, "pid": pid, "start_time": start_time(pid) or 0}
            write_private(
                self.folder / RECORD,
                {
                    "run": self.identity,
                    "generation": self.generation,
                    "boot_id": boot_id(),
                    "processes": list(self._processes.values()),
                },
            )

    def close(self) -> None:
        """Empties the folder and releases the lock; the processes have ended before."""
        _empty(self.folder)
        os.close(self.lock_fd)
        self.reserve.close()


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink(missing_ok=True)


def _end_previous(record: dict[str, Any], held: list[Path]) -> list[int]:
    """Ends leftover processes, unless a living guard does so in time; then waits until their lock is free."""
    _wait_while(lambda: guarded(record) and any(map(locks.is_locked, held)))
    ended = end_leftovers(record)
    if ended:
        log.warning("ended %d leftover processes: %s", len(ended), ended)
    _wait_while(lambda: any(map(locks.is_locked, held)))  # their own children end after them
    if still := [path for path in held if locks.is_locked(path)]:
        raise StorageError(
            f"processes of an earlier run still hold {still[0]}",
            hint=f"find them with `fuser {still[0]}` and end them",
        )
    return ended


def _wait_while(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LEFTOVER_SECONDS
    while condition() and time.monotonic() < deadline:
        time.sleep(0.02)
