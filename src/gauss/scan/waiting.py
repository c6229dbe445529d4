"""Waiting for a version to increase. `announce` takes no lock while nobody waits."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager


class Waiting(ABC):
    """Base class of objects with an increasing version."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._watchers = 0
        self._bells: tuple[threading.Event, ...] = ()

    @abstractmethod
    def version(self) -> int:
        """The current version: everything below it is visible."""

    def wait(self, version: int, timeout: float) -> int:
        """Blocks until the version is above `version` or the timeout. Returns the current version."""
        if self.version() > version:
            return self.version()
        deadline = time.monotonic() + timeout
        with self._moved:
            self._watchers += 1  # before the version is read again, so that no change is missed
            try:
                while self.version() <= version and (left := deadline - time.monotonic()) > 0:
                    self._moved.wait(left)
            finally:
                self._watchers -= 1
        return self.version()

    @contextmanager
    def ringing(self, bell: threading.Event) -> Iterator[None]:
        """Sets `bell` whenever the version changes, for waiting on several objects at once."""
        with self._moved:
            self._bells = (*self._bells, bell)
        try:
            yield
        finally:
            with self._moved:
                self._bells = tuple(each for each in self._bells if each is not bell)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for its version to change."""
        return bool(self._watchers or self._bells)

    def announce(self) -> None:
        """Wakes all waiters. Call it after the version has changed, and on close."""
        for bell in self._bells:
            bell.set()
        if self._watchers:
            with self._moved:
                self._moved.notify_all()
