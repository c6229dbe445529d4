"""One sync of a run: when it is due, its child process, and what is known of its runs."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gauss.config.syncs import SyncDef
from gauss.connect.metrics import Totals, added
from gauss.connect.sync_child import RunReport, SyncChild
from gauss.model.cron import Cron
from gauss.model.errors import GaussError, Rejected, Unavailable
from gauss.model.units import counted
from gauss.process.group import ProcessGroup

if TYPE_CHECKING:
    from gauss.connect.letters import SyncLetters
    from gauss.connect.state import StateStore, StreamCursor

LOOK_S = 1.0
"""How often a sync is looked at that is due, but runs elsewhere."""
FOLLOW_AGAIN_MS = 10_000
"""A sync that follows its source and has failed starts again so long after its last start."""
LONGEST_S = 30.0
"""The clock may be set while a sync waits for its time."""
NO_RUNS = ("edited", "replayed")
"""Entries of the history that did not read the source: a cursor was set, dead letters were replayed."""

T = TypeVar("T")
log = logging.getLogger("gauss.connect")


def next_start(every: int | str | None, last_ms: int | None, since_ms: int) -> int | None:
    """When a sync is due, in Unix ms: the first of its times behind its last start, however many have passed since. One
    that has never started is due at once, or at the first time behind `since_ms` that its cron expression names."""
    if every is None:
        return None
    if isinstance(every, int):
        return since_ms if last_ms is None else last_ms + every
    return Cron(every).next_after(since_ms if last_ms is None else last_ms)


class ScheduledSync:
    """A sync with a thread that starts it, so that it never runs twice at once."""

    def __init__(
        self,
        definition: SyncDef,
        command: list[str],
        data_dir: Path,
        group: ProcessGroup,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.definition = definition
        self.failure = ""
        """Why the last run that was started here failed; empty if it did not."""
        self.last: RunReport | None = None
        """The last run that was started here; the one under way if there is one."""
        self.ended: RunReport | None = None
        """The last run that was started here and has ended."""
        self.success_ms: int | None = None
        """The end of the last successful run, here or before the start of this process."""
        self.runs: Counter[str] = Counter()
        """Runs that were started here and have ended, by status."""
        self._rows = self._bytes = 0
        self._metrics: dict[str, Totals] = {}
        self._command, self._group, self._tell = command, group, tell
        self._folder = data_dir / "connect"
        self._since_ms = _now()
        self._next_ms: int | None = None
        self._store: StateStore | None = None
        self._opening = threading.Lock()
        self._child: SyncChild | None = None
        self._asked = self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop, name=f"sync-{definition.name}", daemon=True)

    # --- by other threads ---

    def start(self) -> None:
        self._thread.start()

    def run_now(self) -> None:
        """Starts it outside its times. Raises Rejected if it runs, here or elsewhere."""
        name = self.definition.name
        with self._changed:
            if self._stopping or not self._thread.is_alive():
                raise Unavailable(f'sync "{name}" can\'t be started: the run is starting or stopping')
            if self.is_running():
                raise Rejected(f'sync "{name}" is running', hint=f"wait for its end; see GET /api/syncs/{name}")
            if (other := self._elsewhere()) is not None:
                raise Rejected(
                    f'sync "{name}" is running: process {other["pid"]} on {other["host"]}',
                    hint="wait for its end, or stop that process",
                )
            self._asked = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """Lets the run under way write what it has read, and end. Raises Rejected if none runs here."""
        with self._changed:
            if self._child is None:
                raise Rejected(
                    f'sync "{self.definition.name}" is not running here', hint="see its state in GET /api/syncs"
                )
            self._child.stop()

    def is_running(self) -> bool:
        """Whether it runs as a child, or is about to."""
        return self._child is not None or self._asked

    def stop(self) -> None:
        """Starts it no more, and lets it write what it has read."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            if self._child is not None:
                self._child.stop()

    def kill(self) -> None:
        if (child := self._child) is not None:
            child.kill()

    def join(self, seconds: float) -> bool:
        """Waits for the end of its thread and process; returns whether they have ended."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    # --- what is known ---

    def totals(self) -> tuple[int, int]:
        """Rows and bytes that were written since the start of the run."""
        with self._changed:
            if self._child is None:
                return self._rows, self._bytes
            report = self._child.report
            return self._rows + report.rows, self._bytes + report.bytes

    def metrics(self) -> dict[str, Totals]:
        """What the connectors of each stream have measured since the start of the run."""
        with self._changed:
            return self._metrics if self._child is None else with_metrics(self._metrics, self._child.report)

    def row(self) -> dict[str, Any]:
        """Its status without a look at the state store."""
        state = "running" if self.is_running() else "failed" if self.failure else "idle"
        last = self.ended
        return {
            "name": self.definition.name,
            "state": state,
            "rows": self.totals()[0],
            "last": None if last is None else {"status": last.status, "rows": last.rows, "seconds": last.seconds},
            "next_ms": self._next_ms,
            "detail": self.failure,
        }

    @functools.cached_property
    def letters(self) -> SyncLetters:
        from gauss.connect.letters import SyncLetters  # imports Arrow

        return SyncLetters(self._folder / "letters", self.definition.name)

    def history(self) -> list[dict[str, Any]]:
        """The last runs, here and elsewhere, the newest first; raises GaussError."""
        from gauss.connect.runs import list_runs

        runs = self._read(lambda store: list_runs(store, self.definition.name, limit=20))
        return [each for each in runs if each["status"] not in NO_RUNS]

    def set_cursor(self, stream: str, value: Any) -> StreamCursor:
        """Sets the cursor of a stream, or forgets it with None. Raises Rejected while the sync runs."""
        if self.is_running():
            raise Rejected(f'sync "{self.definition.name}" is running', hint="stop it, or wait for its end")
        from gauss.connect.cursor_edit import set_cursor

        return self._read(lambda store: set_cursor(store, self.definition, stream, value))

    def cursors(self) -> dict[str, StreamCursor]:
        """How far its streams have come; raises GaussError."""
        return self._read(lambda store: store.cursors(self.definition.name))

    def due_ms(self) -> int | None:
        """When it starts next; None if only by hand."""
        other = self.later_elsewhere(self._known_history())
        last = other["started_ms"] if other is not None else self.last.started_ms if self.last is not None else None
        # A start in the future: the clock was set back.
        return next_start(self._every, None if last is None else min(last, _now()), self._since_ms)

    @property
    def _every(self) -> int | str | None:
        """Its times. One that follows its source runs all the time."""
        return FOLLOW_AGAIN_MS if self.definition.follow else self.definition.every

    def later_elsewhere(self, history: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The newest run of a history if another process has started it, after the last one that was started here."""
        if not history or self._child is not None:
            return None
        newest, mine = history[0], self.last
        return newest if mine is None or newest["started_ms"] > (mine.ended_ms or 0) else None

    def _known_history(self) -> list[dict[str, Any]]:
        """The history; empty if it can't be read, so that the sync starts and says why."""
        try:
            return self.history()
        except GaussError as error:
            log.warning("sync %s: its history can't be read: %s", self.definition.name, error.message)
            return []

    def _elsewhere(self) -> dict[str, Any] | None:
        """The run of another process, if one lives."""
        return next((each for each in self._known_history() if each["status"] == "running"), None)

    def _read(self, reading: Callable[[StateStore], T]) -> T:
        """Reads the state of the sync; raises GaussError."""
        from gauss.connect.state import StateStore  # imports SQLAlchemy, and not every run has syncs

        with self._opening:
            if self._store is None:
                self._store = StateStore(self.definition.state or self._folder / "state.db")
        return reading(self._store)

    # --- its thread ---

    def _loop(self) -> None:
        done = [each["ended_ms"] for each in self._known_history() if each["status"] == "succeeded"]
        self.success_ms = done[0] if done else None
        while True:
            try:
                if not self._await_start():
                    return
                self._run()
            except Exception as error:
                # A sync that nobody starts any more would not be noticed.
                log.exception("sync %s", self.definition.name)
                self.failure = f"unexpected {type(error).__name__}: {error}"
                with self._changed:
                    self._asked = False
                    self._changed.wait_for(lambda: self._stopping, LONGEST_S)

    def _await_start(self) -> bool:
        """Waits until it is due or asked for; returns False if the run stops."""
        while True:
            due = self._next_ms = None if self._asked else self.due_ms()
            with self._changed:
                if self._stopping or self._asked:
                    return not self._stopping
                if due is None:
                    pause = None
                elif (left := (due - _now()) / 1000) > 0:
                    pause = min(left, LONGEST_S)
                elif self._elsewhere() is not None:
                    pause = LOOK_S
                else:
                    return True
                self._changed.wait_for(lambda: self._stopping or self._asked, pause)

    def _run(self) -> None:
        child = SyncChild(f"sync-{self.definition.name}", self._command, self._group)
        with self._changed:
            self._child, self._asked, self.last = child, False, child.report
            if self._stopping:
                self._child = None
                return
        name = self.definition.name
        self._next_ms = next_start(self._every, child.report.started_ms, self._since_ms)
        log.info("sync %s: started", name)
        report = child.run()
        self.failure = report.error if report.status == "failed" else ""
        if report.status == "succeeded":
            self.success_ms = report.ended_ms
        with self._changed:
            self.ended = report
            self.runs[report.status] += 1
            self._rows, self._bytes = self._rows + report.rows, self._bytes + report.bytes
            self._metrics = with_metrics(self._metrics, report)
            self._child = None
        said = f"sync {name}: {report.status}, {counted(report.rows, 'row')} in {report.seconds:.1f} s"
        log.info("%s%s", said, f": {report.error}" if report.error else "")
        self._tell(said)


def with_metrics(known: dict[str, Totals], report: RunReport) -> dict[str, Totals]:
    """The metrics of streams with those of one more run."""
    more = {name: added(known.get(name, {}), each.metrics) for name, each in list(report.streams.items())}
    return {**known, **more}


def _now() -> int:
    return time.time_ns() // 1_000_000
