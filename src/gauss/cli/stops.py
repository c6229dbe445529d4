"""The signals that stop a command which stays in the foreground."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from gauss.process.signal_event import SignalEvent


class Stops:
    """Handles signals: the first one drains the run, the second one kills it."""

    def __init__(self) -> None:
        self.asked = SignalEvent()
        self.now = SignalEvent()
        self._numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # started by nohup
            self._numbers.append(signal.SIGHUP)
        self._handle()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """While it is open, a signal ends the command at once: there is nothing to drain yet."""
        for number in self._numbers:
            signal.signal(number, signal.default_int_handler)
        if self.asked.is_set():
            raise KeyboardInterrupt
        yield
        self._handle()

    def _handle(self) -> None:
        for number in self._numbers:
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        (self.now if self.asked.is_set() else self.asked).set()
