"""The data directory of a run: made, versioned, locked by one control process, freed of a dead run's leftovers."""

from __future__ import annotations

import fcntl
import logging
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gauss.model.errors import ConfigError, StorageError
from gauss.model.files import PRIVATE_FOLDER, is_locked, read_json, write_private
from gauss.model.paths import FORMAT_VERSION, DataDir
from gauss.stream.control.processes import boot_id, end_leftovers, guarded, start_time

LEFTOVER_SECONDS = 10.0
OTHERS = 0o077
"""Permissions of everybody but the owner."""
_OURS_BEFORE_VERSION = {"VERSION", "lock", "logs", "cache", "run", "lost+found"}

log = logging.getLogger("gauss.control")


@dataclass
class Held:
    """A data directory that this process holds: the lock, and the identity of the run."""

    paths: DataDir
    run: str
    generation: int
    lock_fd: int
    run_lock_fd: int
    ended: list[int]
    """Processes of a dead run that had to be ended."""
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def run_lock(self) -> Path:
        return self.paths.run / f"{self.generation}.lock"

    def record(self, name: str, pid: int) -> None:
        """Notes a guard, so that the next run can end what this one left."""
        self.processes[name] = {"name": name, "pid": pid, "start_time": start_time(pid) or 0}
        write_private(
            self.paths.run / "processes.json",
            {
                "run": self.run,
                "generation": self.generation,
                "boot_id": boot_id(),
                "processes": list(self.processes.values()),
            },
        )

    def announce(self, endpoint: str, token: str, cert: Path | None = None) -> None:
        """By this file the other commands find the run; `cert` is what it shows over HTTPS."""
        shown = {} if cert is None else {"cert": str(cert)}
        write_private(self.paths.engine_json, {"pid": os.getpid(), "endpoint": endpoint, "token": token, **shown})

    def release(self) -> None:
        """What belongs to the run goes; the lock is let go last."""
        _clear_run(self.paths)
        os.close(self.run_lock_fd)
        os.close(self.lock_fd)


def hold(root: Path) -> Held:
    """Makes or opens a data directory and takes it for this process; ConfigError when another run has it."""
    paths = DataDir(root.absolute())
    # Records, logs and databases are their owner's alone: whatever this process or a child of it makes from now on.
    os.umask(OTHERS)
    try:
        _make(paths)
        lock_fd = _lock(paths)
    except OSError as error:
        raise StorageError(
            f"the data directory {root} can't be used: {error.strerror or error}",
            hint="choose another with --data-dir, or give this user the right to write there",
        ) from error
    try:
        ended = _end_dead_run(paths)
    except BaseException:
        os.close(lock_fd)
        raise
    earlier = [int(path.stem) for path in paths.run.glob("*.lock") if path.stem.isdigit()]
    generation = max([*earlier, int((read_json(paths.run / "processes.json") or {}).get("generation", 0))]) + 1
    _clear_run(paths)
    run_lock_fd = os.open(paths.run / f"{generation}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(run_lock_fd, fcntl.LOCK_SH)
    return Held(paths, uuid.uuid4().hex, generation, lock_fd, run_lock_fd, ended)


def _clear_run(paths: DataDir) -> None:
    """Tokens, configs, locks and marks of a run; nothing in them outlives it."""
    paths.engine_json.unlink(missing_ok=True)
    for path in paths.run.iterdir():
        path.unlink(missing_ok=True)


def _make(paths: DataDir) -> None:
    paths.root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    if not paths.version.exists():
        strangers = {entry.name for entry in paths.root.iterdir()} - _OURS_BEFORE_VERSION
        if strangers:
            raise ConfigError(
                f"{paths.root} is not a data directory of Gauss: it holds {sorted(strangers)[0]} and no VERSION",
                hint="choose a new or empty folder with --data-dir",
            )
        temporary = paths.version.with_name(f".VERSION.{os.getpid()}")
        temporary.write_text(f"{FORMAT_VERSION}\n")
        temporary.replace(paths.version)
    found = paths.version.read_text().strip()
    if found != str(FORMAT_VERSION):
        raise ConfigError(
            f"the data directory {paths.root} has format version {found or '?'}, this Gauss reads {FORMAT_VERSION}",
            hint="run it with the version of Gauss that made it, or choose another with --data-dir",
        )
    for folder in (paths.run, paths.logs, paths.topics, paths.stages, paths.checkpoints, paths.cache):
        folder.mkdir(exist_ok=True)
    _tighten(paths.root)


def _tighten(root: Path) -> None:
    """Closes a directory that others could enter to them, and all that is in it; the root last, for it is the mark that
    this was done."""
    if not root.stat().st_mode & OTHERS:
        return
    for folder, _, names in os.walk(root, topdown=False):
        for path in [*(Path(folder, name) for name in names), Path(folder)]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~OTHERS)


def _lock(paths: DataDir) -> int:
    descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        since = datetime.fromtimestamp(os.fstat(descriptor).st_mtime).astimezone()
        os.close(descriptor)
        url = (read_json(paths.engine_json) or {}).get("endpoint", "not ready yet")
        raise ConfigError(
            f"already running on the data directory {paths.root}: pid {pid}, since {since:%Y-%m-%d %H:%M:%S}, {url}",
            hint=f"stop it first (kill {pid}), or choose another directory with --data-dir",
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _wait_while(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LEFTOVER_SECONDS
    while condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def _end_dead_run(paths: DataDir) -> list[int]:
    """Ends what an earlier run left, unless a guard of it lives and does so in time; then waits until nobody holds
    that run's lock any more."""
    record = read_json(paths.run / "processes.json") or {}
    held = [path for path in paths.run.glob("*.lock") if path.stem.isdigit()]
    _wait_while(lambda: guarded(record) and any(map(is_locked, held)))
    ended = end_leftovers(record)
    if ended:
        log.warning("ended %d processes that a dead run had left: %s", len(ended), ended)
    _wait_while(lambda: any(map(is_locked, held)))  # their own children follow them, each in its time
    if still := [path for path in held if is_locked(path)]:
        raise StorageError(
            f"processes of an earlier run still hold {still[0]}",
            hint=f"find them with `fuser {still[0]}` and end them, or choose another directory with --data-dir",
        )
    return ended
