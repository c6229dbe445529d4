"""Supervised children: each runs under a guard and is restarted with exponential backoff when it dies."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from gauss.model.errors import GaussError, Unavailable, from_dict
from gauss.process.group import ProcessGroup
from gauss.process.guard import session_members
from gauss.process.guarded import GuardedTree
from gauss.process.identity import process_name
from gauss.process.ready import last_line, read_ready

log = logging.getLogger("gauss.process")


@dataclass(frozen=True)
class ChildSpec:
    """What to start, and how long to wait for it."""

    name: str
    command: tuple[str, ...]
    ready_seconds: float = 60.0
    first_starts: int = 3
    """Number of starts after which a child that was never ready is given up."""
    backoff_seconds: float = 0.25
    backoff_max_seconds: float = 15.0
    steady_seconds: float = 30.0
    """A child that lived this long is restarted without a pause."""
    environment: Mapping[str, str] | None = None
    """None: that of this process."""


class Child:
    """One supervised process tree. `state`: starting, ready, restarting, failed, stopped."""

    def __init__(self, spec: ChildSpec, group: ProcessGroup) -> None:
        self.spec = spec
        self.state = "starting"
        self.detail = ""
        self.error: GaussError | None = None
        self.restarts = 0
        self.since = time.monotonic()
        """When it entered its state."""
        self.changed = threading.Event()
        """Set when it is first ready, failed or stopped."""
        self.log_path = group.logs / f"{spec.name}.log"
        """The child's own log; what it, Python or the JVM prints is in `output_path`."""
        self.output_path = group.logs / f"{spec.name}.out.log"
        self._group = group
        self._tree: GuardedTree | None = None
        self._stopping = threading.Event()
        self._was_ready = False
        self._reported_error = False
        self._hung = ""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Spawns in the caller's thread, so that the child starts while the caller goes on importing."""
        ready = self._spawned()
        self._thread = threading.Thread(target=self._watch, args=(ready,), name=f"watch-{self.spec.name}", daemon=True)
        self._thread.start()

    @property
    def guard_pid(self) -> int:
        return self._tree.pid if self._tree is not None else 0

    def living(self) -> str:
        """Name and pid of each process of the tree, such as `java pid 12, python pid 13`."""
        try:
            with self._group.reserve.released():
                found = session_members(self.guard_pid)
                return ", ".join(f"{process_name(pid)} pid {pid}" for pid in found) or "its guard"
        except OSError as error:
            return f"its processes can't be listed: {error.strerror}"

    def stop(self) -> None:
        """Asks the child to end; it is not restarted."""
        self._stopping.set()
        if self._tree is not None:
            self._tree.stop()

    def kill(self) -> None:
        """Kills the whole tree."""
        self._stopping.set()
        if self._tree is not None:
            self._tree.kill()

    def restart(self, why: str) -> None:
        """Kills the tree and lets the watcher restart it: for a child that hangs."""
        log.error("%s; restarting it", why)
        self._hung = why
        if self._tree is not None:
            self._tree.kill()

    def join(self, seconds: float) -> bool:
        """Waits for the end of the tree; whether it is gone."""
        if self._thread is None:
            return True
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _set(self, state: str, detail: str = "") -> None:
        self.state, self.detail, self.since = state, detail, time.monotonic()
        log.info("%s: %s%s", self.spec.name, state, f" ({detail})" if detail else "")
        if state in ("ready", "failed", "stopped"):
            self.changed.set()

    def _spawned(self) -> int | Unavailable:
        """The ready pipe of a new child, or why none could be started, such as a full disk."""
        spec = self.spec
        self._tree = GuardedTree(spec.name, spec.command, self.output_path, self._group, spec.environment)
        try:
            self._tree.start()
        except OSError as error:
            return Unavailable(
                f"the {self.spec.name} process can't be started: {error.strerror or error}",
                hint="free disk space, or raise the limit on open files (ulimit -n)",
            )
        if self._stopping.is_set():
            self._tree.stop()
        return self._tree.ready_fd

    def _watch(self, ready: int | Unavailable) -> None:
        try:
            self._watch_lives(ready)
        except Exception as error:
            # A failed child is reported; one that nobody watches is not.
            log.exception("the watcher of %s failed", self.spec.name)
            if self._tree is not None:
                self._tree.kill()
            self.error = GaussError(
                f"the watcher of the {self.spec.name} process failed: {error}",
                hint="see the log of this process",
            )
            self._set("failed", self.error.message)

    def _watch_lives(self, ready: int | Unavailable) -> None:
        """Waits for the child's end and restarts it, until it is stopped or given up."""
        failures = 0
        while True:
            started = time.monotonic()
            problem = ready if isinstance(ready, Unavailable) else self._await_ready(ready)
            if problem is None:
                self._was_ready = True
                self._set("ready")
            code = 0 if isinstance(ready, Unavailable) else self._await_exit()
            if self._stopping.is_set():
                self._set("stopped")
                return
            failures = 0 if time.monotonic() - started > self.spec.steady_seconds else failures + 1
            ended = self._hung or f"the {self.spec.name} process ended with exit code {code}"
            error = problem or Unavailable(ended, hint=f"its log: {self.log_path}")
            self._hung = ""
            self.error = error
            # A child that reports why it can't start (a port in use) would report it again.
            if not self._was_ready and (self._reported_error or failures >= self.spec.first_starts):
                self._set("failed", error.message)
                return
            pause = 0.0 if failures == 0 else self.spec.backoff_seconds * 2 ** min(failures - 1, 16)
            self.restarts += 1
            self._set("restarting", f"{error.message}; restart {self.restarts}")
            if self._stopping.wait(min(pause, self.spec.backoff_max_seconds)):
                self._set("stopped")
                return
            ready = self._spawned()

    def _await_ready(self, ready_fd: int) -> GaussError | None:
        """None when the child reports that it is up, else why not."""
        try:
            found = read_ready(ready_fd, self.spec.ready_seconds)
        except TimeoutError:
            late = f"the {self.spec.name} process was not up within {self.spec.ready_seconds:.0f} s"
            self.restart(late)
            return Unavailable(late, hint=f"its log: {self.log_path}")
        except EOFError:
            return Unavailable(
                f"the {self.spec.name} process ended before it was up: {last_line(self.output_path)}",
                hint=f"its output: {self.output_path}",
            )
        finally:
            os.close(ready_fd)
        if "error" in found:
            self._reported_error = True
            return from_dict(found["error"])
        return None

    def _await_exit(self) -> int:
        assert self._tree is not None
        return self._tree.wait(
            lambda error: self._set("restarting", f"leftover processes can't be listed: {error.strerror or error}")
        )
