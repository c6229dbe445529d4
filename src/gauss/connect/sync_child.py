"""One run of a sync as a child process: `gauss sync … --json` under a guard, with what its events tell."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gauss.connect.metrics import Totals, from_json
from gauss.process.group import ProcessGroup
from gauss.process.guarded import GuardedTree
from gauss.process.ready import last_line

LOOK_S = 0.25
LOOSE_LINES = 200


@dataclass
class StreamProgress:
    """What a run has done of a stream."""

    status: str = "running"
    rows: int = 0
    bytes: int = 0
    metrics: Totals = field(default_factory=dict)
    """What its connectors have measured."""


@dataclass
class RunReport:
    """What is known of a run of a sync."""

    started_ms: int
    run: str = ""
    status: str = "running"
    """`running`, `succeeded`, `failed` or `cancelled`."""
    ended_ms: int | None = None
    error: str = ""
    streams: dict[str, StreamProgress] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in list(self.streams.values()))

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in list(self.streams.values()))

    @property
    def seconds(self) -> float:
        return ((self.ended_ms or time.time_ns() // 1_000_000) - self.started_ms) / 1000

    def add(self, event: dict[str, Any]) -> None:
        """Takes over an event of `gauss sync --json`."""
        match event.get("event"):
            case "start":
                self.run = event["run"]
            case "progress":
                # An attempt that is retried counts from 0 again.
                stream = self.streams.setdefault(event["stream"], StreamProgress())
                stream.rows = max(stream.rows, event["records_written"])
                stream.bytes = max(stream.bytes, event["bytes_written"])
            case "stream":
                stream = self.streams.setdefault(event["stream"], StreamProgress())
                stream.status = event["status"]
                stream.rows = max(stream.rows, event["records_written"])
                stream.bytes = max(stream.bytes, event["bytes_written"])
            case "metrics":
                stream = self.streams.setdefault(event["stream"], StreamProgress())
                stream.metrics = from_json(event["metrics"])
            case "error":
                where = f"{event['stream']}: " if "stream" in event else ""
                self.error = self.error or f"{where}{event['error']['message']}"
            case "result":
                self.status = event["status"]


class SyncChild:
    """The process of one run. `run` blocks until it has ended; the other methods are for other threads."""

    def __init__(self, name: str, command: list[str], group: ProcessGroup) -> None:
        self.report = RunReport(time.time_ns() // 1_000_000)
        self.output = group.logs / f"{name}.out.log"
        self._tree = GuardedTree(name, command, self.output, group)
        self._events = _Events(self.output, self.report)
        self._told: Callable[[], None] | None = None

    def run(self) -> RunReport:
        """Runs the process to its end; raises nothing."""
        try:
            self._tree.start()
        except OSError as error:
            return self._ended(f"its process can't be started: {error.strerror or error}")
        if self._told is not None:  # before it was there
            self._told()
        os.close(self._tree.ready_fd)  # the command has no ready line: its first event tells that it is up
        while not self._tree.ended(LOOK_S):
            self._events.read()
        code = self._tree.wait()
        self._events.read()
        if self.report.status == "running" and self._told is not None:
            self.report.status = "cancelled"  # it was stopped before it had begun, or killed
        if self.report.status == "running":
            return self._ended(self._events.reason() or f"its process ended with exit code {code}")
        return self._ended()

    def _ended(self, error: str = "") -> RunReport:
        self.report.ended_ms = time.time_ns() // 1_000_000
        if error:
            self.report.status, self.report.error = "failed", error
        return self.report

    def stop(self) -> None:
        """Lets the sync write what it has read, and end."""
        self._told = self._tree.stop
        self._told()

    def kill(self) -> None:
        self._told = self._tree.kill
        self._told()


class _Events:
    """Reads the events that a process appends to its output. Other lines are kept for the reason of a failure."""

    def __init__(self, path: Path, report: RunReport) -> None:
        self._path, self._report = path, report
        self._at = path.stat().st_size if path.exists() else 0
        self._rest = b""
        self._loose: deque[str] = deque(maxlen=LOOSE_LINES)

    def read(self) -> None:
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._at:  # the guard has rotated it
                    self._at, self._rest = 0, b""
                file.seek(self._at)
                found = file.read()
        except OSError:
            return
        self._at += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
                is_event = isinstance(event, dict) and "event" in event
                if is_event:
                    self._report.add(event)
            except (ValueError, KeyError, TypeError):  # what a connector has printed
                is_event = False
            if not is_event:
                self._loose.append(line.decode(errors="replace"))

    def reason(self) -> str:
        """Why a process has ended that reported no result. An error of the command itself is one JSON object over
        several lines."""
        text = "\n".join(self._loose)
        at = text.rfind('{\n  "error"')
        if at >= 0:
            try:
                return str(json.JSONDecoder().raw_decode(text, at)[0]["error"]["message"])
            except (ValueError, KeyError, TypeError):
                pass
        return last_line(self._path) if self._loose else ""
