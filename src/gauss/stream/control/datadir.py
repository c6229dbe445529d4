"""The data directory of a run: created, versioned, and locked by one control process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gauss.clients.embedded import systems
from gauss.model.errors import ConfigError
from gauss.model.files import PRIVATE_FOLDER, read_json, write_private
from gauss.model.paths import FORMAT_VERSION, DataDir, unusable
from gauss.process import locks
from gauss.process.group import ProcessGroup

OTHERS = 0o077
"""Permission bits of group and others."""
_OURS_BEFORE_VERSION = {"VERSION", "lock", "logs", "cache", "run", "lost+found", "connect", "dbstates", *systems()}
"""Also what `gauss sync` and `gauss db` leave in a directory that no run has used yet."""


@dataclass
class Held:
    """A data directory that this process has locked, and the group of processes that it starts there."""

    paths: DataDir
    lock_fd: int
    group: ProcessGroup

    def announce(self, endpoint: str, token: str, cert: Path | None = None) -> None:
        """Writes the file by which other commands find the run; `cert` is the certificate it shows over HTTPS."""
        shown = {} if cert is None else {"cert": str(cert)}
        write_private(self.paths.engine_json, {"pid": os.getpid(), "endpoint": endpoint, "token": token, **shown})

    def release(self) -> None:
        """Removes the files of the run and releases the lock last."""
        self.paths.engine_json.unlink(missing_ok=True)
        self.group.close()
        os.close(self.lock_fd)


def hold(root: Path) -> Held:
    """Creates or opens a data directory and locks it for this process; raises ConfigError if another run holds it."""
    paths = DataDir(root.absolute())
    # All files that this process and its children create (records, logs, databases) are private to their owner.
    os.umask(OTHERS)
    try:
        _make(paths)
        lock_fd = _lock(paths)
    except OSError as error:
        raise unusable(root, error) from error
    try:
        paths.engine_json.unlink(missing_ok=True)
        group = ProcessGroup.open(paths.run, paths.logs)
    except BaseException:
        os.close(lock_fd)
        raise
    return Held(paths, lock_fd, group)


def _make(paths: DataDir) -> None:
    paths.root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    if not paths.version.exists():
        strangers = {entry.name for entry in paths.root.iterdir()} - _OURS_BEFORE_VERSION
        if strangers:
            raise ConfigError(
                f"{paths.root} is not a data directory of Gauss: it contains {sorted(strangers)[0]} but no VERSION",
                hint="choose a new or empty folder with --data-dir",
            )
        temporary = paths.version.with_name(f".VERSION.{os.getpid()}")
        temporary.write_text(f"{FORMAT_VERSION}\n")
        temporary.replace(paths.version)
    found = paths.version.read_text().strip()
    if found != str(FORMAT_VERSION):
        raise ConfigError(
            f"the data directory {paths.root} has format version {found or '?'}, this Gauss reads {FORMAT_VERSION}",
            hint="run it with the version of Gauss that created it, or choose another with --data-dir",
        )
    for folder in (paths.run, paths.logs, paths.topics, paths.stages, paths.checkpoints, paths.cache):
        folder.mkdir(exist_ok=True)
    _tighten(paths.root)


def _tighten(root: Path) -> None:
    """Removes the permissions of other users from everything in a directory; from the root last, since its mode marks
    the directory as done."""
    if not root.stat().st_mode & OTHERS:
        return
    for folder, _, names in os.walk(root, topdown=False):
        for path in [*(Path(folder, name) for name in names), Path(folder)]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~OTHERS)


def _lock(paths: DataDir) -> int:
    descriptor = locks.take(paths.lock)
    if descriptor is None:
        pid = paths.lock.read_text(errors="replace").strip() or "unknown"
        since = datetime.fromtimestamp(paths.lock.stat().st_mtime).astimezone()
        url = (read_json(paths.engine_json) or {}).get("endpoint", "not ready yet")
        raise ConfigError(
            f"already running on the data directory {paths.root}: pid {pid}, since {since:%Y-%m-%d %H:%M:%S}, {url}",
            hint=f"stop it first (kill {pid}), or choose another directory with --data-dir",
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
