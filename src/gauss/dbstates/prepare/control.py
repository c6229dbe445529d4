"""Cancellation and deadline of a job."""

from __future__ import annotations

import threading
import time

from gauss.dbstates.errors import Cancelled, DeadlineExceeded
from gauss.dbstates.holder import is_held

LOOK_SECONDS = 0.25
"""Pause between looks at the holder's lock."""


class JobControl:
    """Asked for by every step of a job, and by every wait in one."""

    def __init__(self, deadline_secs: float | None = None, held_by: str = "") -> None:
        """`held_by`: the job is cancelled when no process holds a lock on this file any more."""
        self._cancelled = threading.Event()
        self._held_by, self._looked = held_by, 0.0
        self._until = None if deadline_secs is None else time.monotonic() + deadline_secs
        self._deadline_secs = deadline_secs

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Raises Cancelled or DeadlineExceeded."""
        if self._cancelled.is_set():
            raise Cancelled("the job was cancelled", hint="start it again if that was not meant")
        if self._held_by and (now := time.monotonic()) - self._looked >= LOOK_SECONDS:
            self._looked = now
            if not is_held(self._held_by):
                raise Cancelled("the client that asked for the job has ended", hint="start it again")
        if self._until is not None and time.monotonic() >= self._until:
            raise DeadlineExceeded(
                f"the job took longer than its deadline of {self._deadline_secs:g} s", hint="allow it more time"
            )

    def wait(self, seconds: float) -> None:
        """A pause that cancellation and deadline end."""
        left = seconds if self._until is None else min(seconds, max(self._until - time.monotonic(), 0))
        self._cancelled.wait(left)
        self.check()

    def seconds_left(self) -> float | None:
        return None if self._until is None else max(self._until - time.monotonic(), 0.001)
