"""What `gauss run` says where no live view is drawn: a line with the time for each step."""

from __future__ import annotations

import datetime
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gauss.cli.output import Output
    from gauss.stream.control.run import Running

WAIT_SECONDS = 10.0
"""How often it says what it still waits for."""
_CALLED = {"engine": "the engine (sockets and topics)", "driver": "Spark"}


class RunLog:
    """Lines on stderr, flushed one by one; `steps` is off where the live view or `--quiet` takes their place."""

    def __init__(self, output: Output, *, steps: bool) -> None:
        self._output = output
        self._steps = steps
        self._states: dict[str, str] = {}
        self._told = time.monotonic()
        self._last: list[Any] = ["ready", []]

    def step(self, text: str) -> None:
        """A step of the start or the end."""
        if self._steps:
            self._output.note(self.timed(text))
            self._told = time.monotonic()

    def timed(self, text: str) -> str:
        """A line with the time, where lines have one."""
        return f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S} {text}" if self._steps else text

    def waiting(self, running: Running) -> None:
        """Called again and again while the run starts."""
        if not self._steps:
            return
        for child in running.children:
            name, state = child.spec.name, child.state
            if state != self._states.get(name, "starting"):
                self.step(f"{_CALLED.get(name, name)} is {state}" + (f": {child.detail}" if child.detail else ""))
            self._states[name] = state
        if time.monotonic() - self._told > WAIT_SECONDS:
            missing = [_CALLED.get(name, name) for name, state in self._states.items() if state != "ready"]
            self.step(f"waiting for {', '.join(missing) or 'queries to start'}")

    def health(self, status: dict[str, Any]) -> None:
        """A line when the health changes. A number that grows every second (for how long, how many) is no change."""
        now = [status["status"], [re.sub(r"\d+", "", reason) for reason in status["reasons"]]]
        if now != self._last:
            text = ": ".join(filter(None, [status["status"], "; ".join(status["reasons"])]))
            self._output.note(self.timed(text), style="yellow")
            self._last = now
