"""A worker beside `gauss serve`, for a fleet on one machine: a process of its own, restarted when it dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gauss.fleet.worker.worker import DRAIN_SECONDS
from gauss.model.files import make_private
from gauss.process.group import ProcessGroup
from gauss.process.supervise import Child, ChildSpec

STORE_VARIABLE = "GAUSS_STORE"
"""The store of a worker, in its environment: its address has a password, and arguments are for all to see."""
START_SECONDS = 240.0
STOP_SECONDS = 2 * DRAIN_SECONDS


@contextmanager
def worker_beside(data_dir: Path, store: str, key_file: Path, options: Mapping[str, str]) -> Iterator[Child]:
    """Starts a worker whose files are in `data_dir`; drains and ends it afterwards. The caller holds a lock of the
    directory. If this process is killed, a guard ends the worker."""
    run, logs = data_dir / "run", data_dir / "logs"
    for folder in (data_dir, run, logs):
        make_private(folder)
    command = [sys.executable, "-m", "gauss.cli.main", "worker", "--data-dir", str(data_dir / "worker")]
    command += [word for option in options.items() for word in option]
    environment = {**os.environ, STORE_VARIABLE: store, "GAUSS_KEY_FILE": str(key_file)}
    group = ProcessGroup.open(run, logs)
    child = Child(ChildSpec("worker", tuple(command), START_SECONDS, environment=environment), group)
    try:
        child.start()
        yield child
    finally:
        child.stop()
        if not child.join(STOP_SECONDS):
            child.kill()
            child.join(STOP_SECONDS)
        group.close()
