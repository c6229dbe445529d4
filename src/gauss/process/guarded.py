"""A process tree under a guard: started, told to end, waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gauss.process.group import ProcessGroup
from gauss.process.guard import __file__ as guard_file
from gauss.process.guard import end_session
from gauss.process.identity import GROUP_VARIABLE
from gauss.process.ready import spawn

SWEEP_SECONDS = 0.5
"""Pause before leftover processes are looked for again, if that failed."""


class GuardedTree:
    """One life of a child and its descendants. Its output is appended to a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        output: Path,
        group: ProcessGroup,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is that of this process unless given."""
        self.ready_fd = -1
        """Where the child writes its ready line; to be closed by the caller."""
        self._name, self._output, self._group = name, output, group
        self._command, self._environment = command, environment
        self._guard: subprocess.Popen[bytes] | None = None
        self._control_fd = -1
        self._lock = threading.Lock()

    def start(self) -> None:
        """Raises OSError, such as for a full disk; nothing stays open or running then."""
        with self._group.reserve.released():
            self._start()

    def _start(self) -> None:
        control_read, control_write = os.pipe()
        try:
            self._guard, ready = spawn(
                [sys.executable, "-I", "-S", guard_file, str(control_read), str(self._output), *self._command],
                environment={
                    **(os.environ if self._environment is None else self._environment),
                    GROUP_VARIABLE: self._group.identity,
                    "PYTHONUNBUFFERED": "1",
                },
                pass_fds=(control_read, self._group.lock_fd),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(control_write)
            raise
        finally:
            os.close(control_read)
        try:
            self._group.record(self._name, self._guard.pid)
        except OSError:
            # A tree that the next group could not find must not run; the end of its control pipe ends it.
            os.close(control_write)
            os.close(ready)
            self._guard.wait()
            raise
        self.ready_fd = ready
        with self._lock:
            self._control_fd = control_write

    @property
    def pid(self) -> int:
        """Of the guard, which is the id of the session, too; 0 before the start."""
        return self._guard.pid if self._guard is not None else 0

    def stop(self) -> None:
        """Sends SIGTERM to the child."""
        self._tell(b"t")

    def kill(self) -> None:
        """Kills the whole tree."""
        self._tell(b"k")

    def _tell(self, what: bytes) -> None:
        with self._lock:
            if self._control_fd >= 0:
                try:
                    os.write(self._control_fd, what)
                except BrokenPipeError:
                    pass  # the guard is ending already

    def ended(self, seconds: float) -> bool:
        """Whether the guard ends within so many seconds; `wait` then returns soon."""
        assert self._guard is not None
        try:
            self._guard.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self, troubled: Callable[[OSError], None] = lambda _: None) -> int:
        """Waits for the end of the tree; returns the exit code of the child. `troubled` is called while its processes
        can't be listed."""
        assert self._guard is not None
        code = self._guard.wait()
        while True:
            try:
                # The guard has ended its session, unless it was killed itself.
                with self._group.reserve.released():
                    end_session(self._guard.pid, 0.0 if code < 0 else 1.0)
                break
            except OSError as error:
                troubled(error)
                time.sleep(SWEEP_SECONDS)
        with self._lock:
            os.close(self._control_fd)
            self._control_fd = -1
        return code
