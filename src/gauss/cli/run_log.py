"""Log lines of `gauss run` without the live view: each step with its time."""

from __future__ import annotations

import datetime
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gauss.cli.output import CommandOutput
    from gauss.stream.control.run import Running

WAIT_SECONDS = 10.0
"""How often the log repeats what the start is waiting for."""
_CALLED = {"engine": "the engine (sockets and topics)", "driver": "Spark"}


class RunLog:
    """Writes lines to stderr and flushes each. `steps` is off with the live view or `--quiet`."""

    def __init__(self, output: CommandOutput, *, steps: bool) -> None:
        self._output = output
        self._steps = steps
        self._states: dict[str, str] = {}
        self._last_line_at = time.monotonic()
        self._last: list[Any] = ["ready", []]

    def step(self, text: str) -> None:
        """Logs a step of the start or stop."""
        if self._steps:
            self._output.note(self.timed(text))
            self._last_line_at = time.monotonic()

    def timed(self, text: str) -> str:
        """Logs a line, with the time unless the live view is shown."""
        return f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S} {text}" if self._steps else text

    def waiting(self, running: Running) -> None:
        """Logs changes while the run starts. Called repeatedly."""
        if not self._steps:
            return
        for child in running.children:
            name, state = child.spec.name, child.state
            if state != self._states.get(name, "starting"):
                self.step(f"{_CALLED.get(name, name)} is {state}" + (f": {child.detail}" if child.detail else ""))
            self._states[name] = state
        if time.monotonic() - self._last_line_at > WAIT_SECONDS:
            missing = [_CALLED.get(name, name) for name, state in self._states.items() if state != "ready"]
            self.step(f"waiting for {', '.join(missing) or 'queries to start'}")

    def health(self, status: dict[str, Any]) -> None:
        """Logs a change of health. Durations and counts that grow every second do not count as a change."""
        now = [status["status"], [re.sub(r"\d+", "", reason) for reason in status["reasons"]]]
        if now != self._last:
            text = ": ".join(filter(None, [status["status"], "; ".join(status["reasons"])]))
            self._output.note(self.timed(text), style="yellow")
            self._last = now
