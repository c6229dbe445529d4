"""Runs of syncs under test: watched, stopped when they take too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gauss.config.syncs import SyncDef
from gauss.connect.attempt import Side
from gauss.connect.conformance.case import CaseFailed
from gauss.connect.conformance.watch import Record, watched
from gauss.connect.sync import Sync, SyncResult
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.progress import CheckpointKind
from gauss.model.errors import GaussError


class KitSync(Sync):
    """A sync whose two connectors are watched."""

    def __init__(self, definition: SyncDef, base_dir: Path, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.events: list[dict[str, Any]] = []
        self.on_event: Callable[[dict[str, Any]], None] = lambda _: None
        super().__init__(definition, base_dir, data_dir, self._noted)
        self.records = {kind: Record() for kind in CheckpointKind}
        self._sides = {kind: watched(side, self.records[kind]) for kind, side in self._sides.items()}

    def side(self, kind: CheckpointKind) -> Side:
        return self._sides[kind]

    def _noted(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.on_event(event)


@dataclass
class Running:
    """A run in a thread of its own."""

    sync: KitSync
    thread: threading.Thread
    results: list[SyncResult] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def ended_within(self, seconds: float) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def result(self) -> SyncResult:
        """What became of the run, which has ended; raises what it raised."""
        if self.errors:
            raise self.errors[0]
        return self.results[0]


def start(sync: KitSync) -> Running:
    """Starts a run."""
    results: list[SyncResult] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(sync.run())
        except BaseException as error:
            errors.append(error)

    # A connector that hangs must not keep the process.
    thread = threading.Thread(target=work, daemon=True, name="conformance-run")
    thread.start()
    return Running(sync, thread, results, errors)


def finish(running: Running, timeout_s: float, patience_s: float) -> SyncResult:
    """Waits for a run; one that takes too long is broken off, and fails the case."""
    if not running.ended_within(timeout_s):
        running.sync.break_off(ConnectorError.internal("CANCELLED", "the run took too long"))
        ended = running.ended_within(patience_s)
        after = "" if ended else ", and did not end when it was broken off"
        raise CaseFailed(f"the run did not end within {timeout_s:g} s{after}")
    return running.result()


def described(error: GaussError | None) -> str:
    """An error in one line."""
    if error is None:
        return "no error"
    if isinstance(error, ConnectorError):
        return f"{error.category} error {error.code}: {error.message}"
    return f"{error.code}: {error.message}"


def succeeded(result: SyncResult) -> SyncResult:
    """The result; fails the case if the run did not succeed."""
    if result.status != "succeeded":
        raise CaseFailed(f"the run {result.status}: {described(result.error)}")
    return result


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    """Whether a condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
