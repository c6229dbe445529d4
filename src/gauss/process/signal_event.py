"""An event that a signal handler may set."""

from __future__ import annotations

import os
import select
import threading


class SignalEvent(threading.Event):
    """A `threading.Event` without a lock: a handler that sets an ordinary one deadlocks if the signal arrives while the
    main thread holds its lock, as it does at the beginning and end of each `wait`."""

    def __init__(self) -> None:
        super().__init__()
        self._set = False
        self._written = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        os.eventfd_write(self._written, 1)

    def clear(self) -> None:
        raise NotImplementedError("what a signal has asked for is not taken back")

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            poll = select.poll()
            poll.register(self._written, select.POLLIN)
            poll.poll(None if timeout is None else max(timeout, 0.0) * 1000)
        return self._set

    def __del__(self) -> None:
        os.close(self._written)
