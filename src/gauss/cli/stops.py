"""The signals that stop a command which stays in the foreground."""

from __future__ import annotations

import signal

from gauss.process.signal_event import SignalEvent


class Stops:
    """Handles signals: the first one drains the run, the second one kills it."""

    def __init__(self) -> None:
        self.asked = SignalEvent()
        self.now = SignalEvent()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # started by nohup
                signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        (self.now if self.asked.is_set() else self.asked).set()
