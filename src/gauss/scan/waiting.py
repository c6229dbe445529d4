"""Waiting for a version to move, without a lock where nobody waits."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager


class Waiting(ABC):
    """Something with a version that grows."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._watchers = 0
        self._bells: tuple[threading.Event, ...] = ()

    @abstractmethod
    def version(self) -> int:
        """Everything below it is visible."""

    def wait(self, version: int, timeout: float) -> int:
        """Blocks until the version is above `version` or the time is over; returns the version."""
        if self.version() > version:
            return self.version()
        deadline = time.monotonic() + timeout
        with self._moved:
            self._watchers += 1  # before the version is looked at again, so that no move goes unseen
            try:
                while self.version() <= version and (left := deadline - time.monotonic()) > 0:
                    self._moved.wait(left)
            finally:
                self._watchers -= 1
        return self.version()

    @contextmanager
    def ringing(self, bell: threading.Event) -> Iterator[None]:
        """Sets an event whenever the version moves: for whoever waits for several of them."""
        with self._moved:
            self._bells = (*self._bells, bell)
        try:
            yield
        finally:
            with self._moved:
                self._bells = tuple(each for each in self._bells if each is not bell)

    def announce(self) -> None:
        """The version has moved (or all is closing): wakes those who wait."""
        for bell in self._bells:
            bell.set()
        if self._watchers:
            with self._moved:
                self._moved.notify_all()
