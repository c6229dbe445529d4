"""Children of control: each spawned under a guard, watched, and started again with growing pauses when it dies."""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauss.model.errors import GaussError, Unavailable, from_dict
from gauss.stream.control.datadir import Held
from gauss.stream.control.descriptors import Reserve
from gauss.stream.control.guard import __file__ as guard_file
from gauss.stream.control.guard import end_session, session_members
from gauss.stream.control.processes import RUN_VARIABLE, process_name

SWEEP_SECONDS = 0.5
"""Pause after a look for leftover processes that failed."""

log = logging.getLogger("gauss.control")
reserve = Reserve()


@dataclass(frozen=True)
class ChildSpec:
    """What to start and how patient to be with it."""

    name: str
    command: tuple[str, ...]
    ready_seconds: float = 60.0
    first_starts: int = 3
    """Silent deaths before it was ever ready after which it is given up."""
    backoff_seconds: float = 0.25
    backoff_max_seconds: float = 15.0
    steady_seconds: float = 30.0
    """A child that lived this long starts again without a pause."""
    environment: Mapping[str, str] | None = None
    """Left out: that of this process."""


class Child:
    """One supervised process tree. `state`: starting, ready, restarting, failed, stopped."""

    def __init__(self, spec: ChildSpec, held: Held) -> None:
        self.spec = spec
        self.state = "starting"
        self.detail = ""
        self.error: GaussError | None = None
        self.ready_info: dict[str, Any] = {}
        self.restarts = 0
        self.since = time.monotonic()
        """When it came into its state."""
        self.changed = threading.Event()
        """Set at the first `ready`, or when it is given up."""
        self.log_path = held.paths.logs / f"{spec.name}.log"
        """What the child logs; what it prints, or Python or the JVM print as it dies, is in `output_path`."""
        self.output_path = held.paths.logs / f"{spec.name}.out.log"
        self._held = held
        self._guard: subprocess.Popen[bytes] | None = None
        self._control_fd = -1
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._was_ready = False
        self._said_why = False
        self._hung = ""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Spawns at once, in the caller's thread: the child starts while the caller goes on importing."""
        ready = self._spawned()
        self._thread = threading.Thread(target=self._watch, args=(ready,), name=f"watch-{self.spec.name}", daemon=True)
        self._thread.start()

    @property
    def guard_pid(self) -> int:
        return self._guard.pid if self._guard is not None else 0

    def living(self) -> str:
        """Name and pid of each process of the tree, such as `java pid 12, python pid 13`."""
        try:
            with reserve.released():
                found = session_members(self.guard_pid)
                return ", ".join(f"{process_name(pid)} pid {pid}" for pid in found) or "its guard"
        except OSError as error:
            return f"its processes can't be looked at: {error.strerror}"

    def stop(self) -> None:
        """Asks the child to end; it is not started again."""
        self._stopping.set()
        self._tell(b"t")

    def kill(self) -> None:
        """Ends the whole tree at once."""
        self._stopping.set()
        self._tell(b"k")

    def restart(self, why: str) -> None:
        """Ends the tree at once and lets the watcher start it again: for a child that hangs."""
        log.error("%s, and is restarted", why)
        self._hung = why
        self._tell(b"k")

    def join(self, seconds: float) -> bool:
        """Whether the tree is gone within the time."""
        if self._thread is None:
            return True
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _tell(self, what: bytes) -> None:
        with self._lock:
            if self._control_fd >= 0:
                try:
                    os.write(self._control_fd, what)
                except BrokenPipeError:
                    pass  # the guard is ending already

    def _set(self, state: str, detail: str = "") -> None:
        self.state, self.detail, self.since = state, detail, time.monotonic()
        log.info("%s: %s%s", self.spec.name, state, f" ({detail})" if detail else "")
        if state in ("ready", "failed", "stopped"):
            self.changed.set()

    def _spawned(self) -> int | Unavailable:
        """The reading end of a new child's ready pipe, or why there is none: no space, no descriptors."""
        try:
            with reserve.released():
                return self._spawn()
        except OSError as error:
            return Unavailable(
                f"the {self.spec.name} process can't be started: {error.strerror or error}",
                hint="free disk space, or raise the limit on open files (ulimit -n)",
            )

    def _spawn(self) -> int:
        """Starts the guard with the child under it. If a step fails, nothing stays open or running."""
        opened: list[int] = []
        try:
            control_read, control_write = _pipe(opened)
            ready_read, ready_write = _pipe(opened)
            environment = {
                **(os.environ if self.spec.environment is None else self.spec.environment),
                RUN_VARIABLE: self._held.run,
                "GAUSS_READY_FD": str(ready_write),
                "PYTHONUNBUFFERED": "1",
            }
            guard = [sys.executable, "-I", "-S", guard_file, str(control_read), str(self.output_path)]
            self._guard = subprocess.Popen(
                [*guard, *self.spec.command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(control_read, ready_write, self._held.run_lock_fd),
                start_new_session=True,
            )
        except OSError:
            _close(opened)
            raise
        _close([control_read, ready_write])
        try:
            self._held.record(self.spec.name, self._guard.pid)
        except OSError:
            # A tree that the next run could not find must not run; the end of its control pipe ends it.
            _close([control_write, ready_read])
            self._guard.wait()
            raise
        with self._lock:
            self._control_fd = control_write
        if self._stopping.is_set():
            self._tell(b"t")
        return ready_read

    def _watch(self, ready: int | Unavailable) -> None:
        try:
            self._watch_lives(ready)
        except Exception as error:
            # Better a run that ends and says why than a child that nobody watches.
            log.exception("the watcher of %s failed", self.spec.name)
            self._tell(b"k")
            self.error = GaussError(
                f"the watcher of the {self.spec.name} process failed: {error}",
                hint=f"see {self._held.paths.logs / 'control.log'}",
            )
            self._set("failed", self.error.message)

    def _watch_lives(self, ready: int | Unavailable) -> None:
        """Waits for the child's end and starts it again, until it is stopped or given up."""
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
            # A child that says itself why it can't start (a taken port) would say it again.
            if not self._was_ready and (self._said_why or failures >= self.spec.first_starts):
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
        """None when the child said that it is up, else why not."""
        heard = b""
        deadline = time.monotonic() + self.spec.ready_seconds
        waiting = select.poll()  # select takes no descriptor above 1023
        waiting.register(ready_fd, select.POLLIN)
        try:
            while b"\n" not in heard:
                left = deadline - time.monotonic()
                if left <= 0 or not waiting.poll(left * 1000):
                    late = f"the {self.spec.name} process was not up within {self.spec.ready_seconds:.0f} s"
                    self.restart(late)
                    return Unavailable(late, hint=f"its log: {self.log_path}")
                more = os.read(ready_fd, 65536)
                if not more:
                    return self._died_unready()
                heard += more
        finally:
            os.close(ready_fd)
        try:
            said: dict[str, Any] = json.loads(heard.split(b"\n", 1)[0])
        except ValueError:
            return self._died_unready()
        if "error" in said:
            self._said_why = True
            return from_dict(said["error"])
        self.ready_info = said
        return None

    def _died_unready(self) -> GaussError:
        return Unavailable(
            f"the {self.spec.name} process ended before it was up: {_last_line(self.output_path)}",
            hint=f"its output: {self.output_path}",
        )

    def _await_exit(self) -> int:
        assert self._guard is not None
        code = self._guard.wait()
        # The guard has swept its session, unless it was killed itself: then what it watched is still there.
        while not self._swept(self._guard.pid, 0.0 if code < 0 else 1.0):
            time.sleep(SWEEP_SECONDS)
        with self._lock:
            os.close(self._control_fd)
            self._control_fd = -1
        return code

    def _swept(self, session: int, term_seconds: float) -> bool:
        """Ends what is left of a session; False, and the reason in `detail`, if it can't be looked for now."""
        try:
            with reserve.released():
                end_session(session, term_seconds)
        except OSError as error:
            self._set("restarting", f"leftover processes can't be looked for: {error.strerror or error}")
            return False
        return True


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened += ends
    return ends


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _last_line(path: Path) -> str:
    """The end of an output in a sentence: Python puts what went wrong on the last line."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "no output"
    return lines[-1].strip() if lines else "it printed nothing"
