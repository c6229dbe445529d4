"""Moves one stream of a sync: prepares the destination, runs attempts until one succeeds, and keeps the cursor."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from gauss.connect.attempt import Outcome, Side, close, pause_s, typed
from gauss.connect.channel import most_in_flight
from gauss.connect.evolution import SchemaPlan, plan_schema
from gauss.connect.features import check_statements
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.letters import SyncLetters
from gauss.connect.metrics import StreamMetrics, to_json
from gauss.connect.plan import StreamPlan
from gauss.connect.reject_ids import digest
from gauss.connect.resumption import Above, raise_above, safe_cursor
from gauss.connect.runner import Runner, RunningAttempt
from gauss.connect.runs import SyncRun
from gauss.connect.state import StateStore, StreamCursor
from gauss.connect.typed import typed_error
from gauss.contracts.connector.connector import ManagedDestination, OpaqueSource
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import LogLevel
from gauss.contracts.connector.lifecycle import OpenInfo
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Metric, ReadSummary, WriteSummary
from gauss.contracts.connector.settings import CheckpointThresholds
from gauss.contracts.connector.stream import StreamContext, SyncMode

log = logging.getLogger("gauss.connect")
ATTEMPTS = 1 << 16
"""A run's generation times this, and the number of its attempt: each attempt fences the ones before it."""
STORE_S = 1.0
"""How often the cursor is stored of a stream whose destination has a watermark: for people, and if that is lost."""
PROGRESS_S, METRICS_S = 0.5, 5.0
"""How often people are told of both, while there is something new."""
LEVELS = {
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARN: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.TRACE: logging.DEBUG,
}
Emit = Callable[[dict[str, Any]], None]
S = TypeVar("S", ReadSummary, WriteSummary)


@dataclass
class StreamResult:
    """What became of a stream."""

    stream: str
    status: str
    """`succeeded`, `failed` or `cancelled`."""
    read: ReadSummary
    write: WriteSummary
    error: ConnectorError | None = None
    letters: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class SyncContext:
    """What the streams of a run share."""

    sync: str
    run: SyncRun
    store: StateStore
    letters: SyncLetters
    source: Side
    destination: Side
    runner: Runner
    max_attempts: int
    follow: bool
    checkpoint: CheckpointThresholds
    emit: Emit
    replan: Callable[[str], StreamPlan]
    """The plan of a stream by the columns that it has now; raises ConnectorError."""


class StreamJob:
    """One stream in one run of a sync. Implements `host.Observer`."""

    def __init__(self, context: SyncContext, plan: StreamPlan) -> None:
        self._context, self._plan = context, plan
        self._attempt: RunningAttempt | None = None
        # A run whose state was lost has the number of an earlier one: it must not take what that one left for its own.
        self._number, self._floor = secrets.randbelow(ATTEMPTS // 2), 0
        self._advanced = False
        self._letters = 0
        self._has_watermark = False
        self._unstored: StreamCursor | None = None
        self._stored_at = 0.0
        self._totals = {CheckpointKind.SOURCE: (0, 0), CheckpointKind.DEST: (0, 0)}
        self._safe_rows = self._before = (0, 0)
        """Rows and bytes before the last safe checkpoint of this attempt, and of those before it."""
        self._told_at = 0.0
        self._metrics, self._measured_at = StreamMetrics(), time.monotonic()
        self._stop: ConnectorError | None = None
        self._draining = threading.Event()
        self._idle: list[StreamRun] = []
        """Runs of connectors that read and write no rows."""
        self._is_unfinished = False
        """Whether it is unknown if the rows of an attempt have become visible."""

    @property
    def stream(self) -> str:
        return self._plan.name

    # --- ending ---

    def drain(self) -> None:
        """Ends the source; what it has emitted is still written."""
        self._draining.set()
        if self._attempt is not None:
            self._attempt.drain()

    def break_off(self, error: ConnectorError) -> None:
        """Ends both sides where they are."""
        self._stop = error
        self._draining.set()
        if self._attempt is not None:
            self._attempt.break_off(error)
        for run in list(self._idle):
            run.interrupt()

    # --- running ---

    def __call__(self) -> StreamResult:
        """Runs to the end; raises nothing."""
        began, failures = time.monotonic(), 0
        outcome, error = Outcome(), self._stop
        while not self._draining.is_set():
            self._advanced = False
            outcome = self._try()
            error = self._stop or outcome.error
            if error is None or self._draining.is_set():
                break
            failures = 1 if self._advanced else failures + 1
            is_replanned = not self._is_unfinished and self._is_replanned(error)
            if not is_replanned and (
                not error.retryable or self._is_unfinished or failures >= self._context.max_attempts
            ):
                break
            wait = 0.0 if is_replanned else pause_s(error, failures)
            log.info("%s: %s; next attempt in %.1f s", self._plan.name, error.message, wait)
            self._emit("retry", error=error.message, code=error.code, wait_s=round(wait, 1))
            self._draining.wait(wait)
            error = self._stop
            self._metrics.retry()
            self._before, self._safe_rows = self._safely_moved(), (0, 0)
        self._tell_metrics()
        status = "failed" if error is not None else "cancelled" if self._draining.is_set() else "succeeded"
        return StreamResult(
            self._plan.name,
            status,
            self._whole(outcome.read, ReadSummary(), "read"),
            self._whole(outcome.write, WriteSummary(), "written"),
            error,
            self._letters,
            time.monotonic() - began,
        )

    def _is_replanned(self, error: ConnectorError) -> bool:
        """Plans the stream again if its columns have changed since it was planned; returns whether the plan is new."""
        if not (error.details or {}).get("replan"):
            return False
        try:
            plan = self._context.replan(self._plan.name)
            is_new = not plan.schema().equals(self._plan.schema())
        except ConnectorError as failure:
            log.warning("%s: the stream can't be planned again: %s", self._plan.name, failure.message)
            return False
        self._plan = plan
        return is_new

    def _safely_moved(self) -> tuple[int, int]:
        """Rows and bytes before the last safe checkpoint, of all attempts."""
        return self._before[0] + self._safe_rows[0], self._before[1] + self._safe_rows[1]

    def _whole(self, last: S | None, nothing: S, done: str) -> S:
        """The summary of the last attempt, if it came to its end, with the rows of those before it."""
        rows, size = self._safely_moved() if last is None else self._before
        summary = last or nothing
        names = f"records_{done}", f"bytes_{done}"
        given = (getattr(summary, name) + more for name, more in zip(names, (rows, size), strict=True))
        return msgspec.structs.replace(summary, **dict(zip(names, given, strict=True)))

    def _try(self) -> Outcome:
        self._number += 1
        try:
            return self._run_once()
        except Above as above:
            self._floor, self._number = above.newest, 0
            return self._try()
        except Exception as error:  # also of the state store
            return Outcome(error=typed_error(error))

    @property
    def generation(self) -> int:
        return max(self._context.run.generation * ATTEMPTS, self._floor) + self._number

    def _run_once(self) -> Outcome:
        """One attempt, from the cursor that is safe."""
        self._idle.clear()
        stream = self._plan.context(self._stored())
        manager, info = self._manager(stream)
        self._has_watermark = isinstance(manager, ManagedDestination)
        try:
            schema = None
            rows = self._context.runner.result_schema(self._plan)
            if isinstance(manager, ManagedDestination):
                schema = self._prepared(manager, info, stream, rows)
                stream = self._plan.context(self._safe(manager, stream))
            opaque = self._opaque(manager, stream, schema)
            run = StreamRun(
                stream,
                self._context.store,
                self,
                pipeline=self._context.sync,
                generation=self.generation,
                opaque=opaque,
                schema=schema,
                follow=self._context.follow,
                most_in_flight=most_in_flight(self._context.checkpoint),
            )
            self._attempt = self._context.runner.attempt(
                self._plan, run, self._context.source, self._context.destination
            )
            if self._stop is not None:
                self.break_off(self._stop)
            elif self._draining.is_set():
                self.drain()
            outcome = self._attempt()
            self._store_cursor()
            if outcome.error is None and isinstance(manager, ManagedDestination) and not self._draining.is_set():
                self._finish(stream)
            return outcome
        finally:
            self._attempt = None
            close(manager)

    def _prepared(
        self, manager: ManagedDestination, info: OpenInfo, stream: StreamContext, rows: pa.Schema
    ) -> SchemaPlan:
        """The table is made, or changed as the policies say."""
        plan, statements = planned_table(manager, info, stream, rows)
        for change in plan.changes:
            log.info("%s: %s", self._plan.name, change)
        try:
            typed(lambda: manager.prepare(stream, statements, self.generation))
        except ConnectorError as error:
            raise_above(error, stream, self._floor, self._context.store, self._context.run)
        return plan

    def _finish(self, stream: StreamContext) -> None:
        """Makes the rows visible. Tried again with the same generation: a new attempt might add them twice if only the
        answer was lost."""
        self._is_unfinished = True
        for failures in range(1, self._context.max_attempts + 1):
            try:
                manager, _ = self._manager(stream)
                try:
                    typed(lambda each=manager: each.finish(stream, self.generation))  # type: ignore[misc]
                finally:
                    close(manager)
                self._is_unfinished = False
                return
            except ConnectorError as error:
                if not error.retryable or failures == self._context.max_attempts or self._stop is not None:
                    raise
                log.warning("%s: %s; tried again", self._plan.name, error.message)
                self._draining.wait(pause_s(error, failures))

    def _manager(self, stream: StreamContext) -> tuple[Any, OpenInfo]:
        """A destination that manages the table of the stream; to be closed."""
        return self._opened(stream, CheckpointKind.DEST, self._context.destination)

    def _opened(self, stream: StreamContext, kind: CheckpointKind, side: Side) -> tuple[Any, OpenInfo]:
        """A connector that reads and writes no rows; to be closed."""
        idle = StreamRun(stream, self._context.store, self, pipeline=self._context.sync, generation=self.generation)
        self._idle.append(idle)
        if self._stop is not None:
            idle.interrupt()
        return side.open(StreamHost(idle, kind, side.id))

    def _stored(self) -> CursorValue | None:
        found = self._context.store.cursor(self._context.sync, self._plan.name)
        return found.value if found is not None and self._plan.mode is not SyncMode.FULL_REFRESH else None

    def _safe(self, manager: ManagedDestination, stream: StreamContext) -> CursorValue | None:
        if self._plan.mode is SyncMode.FULL_REFRESH:
            return None
        mark = typed(lambda: manager.watermark(stream, ""))
        return safe_cursor(mark, stream.stream_name, self.generation, self._context.store, self._context.run)

    def _opaque(self, manager: Any, stream: StreamContext, schema: SchemaPlan | None) -> str:
        """The encoding that both sides share, so that rows need not become Arrow. Empty: there is none."""
        if schema is None or schema.changes or self._plan.definition.transform is not None:
            return ""
        kind = str(manager.opaque_kind(stream, schema.table))
        if not kind:
            return ""
        source, _ = self._opened(stream, CheckpointKind.SOURCE, self._context.source)
        try:
            same = isinstance(source, OpaqueSource) and typed(lambda: source.opaque_kind(stream)) == kind
            return kind if same else ""
        finally:
            close(source)

    # --- what both connectors report ---

    def committed(self, checkpoint: Checkpoint) -> None:
        if self._plan.mode is not SyncMode.FULL_REFRESH:  # which starts again with every attempt
            self._advanced = True
            self._safe_rows = checkpoint.records_processed, checkpoint.bytes_processed
            now = time.time_ns() // 1_000_000
            self._unstored = StreamCursor(self.generation, checkpoint.cursor_value, checkpoint.id, now)
            # The watermark in the destination is what the next attempt starts from, if there is one.
            exact = not self._has_watermark or self._context.follow
            if exact or time.monotonic() - self._stored_at >= STORE_S:
                self._store_cursor()
        self._emit("checkpoint", id=checkpoint.id)

    def _store_cursor(self) -> None:
        if self._unstored is not None:
            self._context.store.move(self._context.sync, self._plan.name, self._unstored, self._context.run.id)
            self._unstored, self._stored_at = None, time.monotonic()

    def progressed(self, kind: CheckpointKind, records: int, size: int) -> None:
        self._totals[kind] = self._before[0] + records, self._before[1] + size
        if time.monotonic() - self._told_at >= PROGRESS_S:
            self._told_at = time.monotonic()
            (read, read_bytes), (written, written_bytes) = self._totals.values()
            self._emit(
                "progress",
                records_read=read,
                bytes_read=read_bytes,
                records_written=written,
                bytes_written=written_bytes,
            )

    def logged(self, connector: str, level: LogLevel, message: str) -> None:
        log.log(LEVELS[level], "%s: %s: %s", self._plan.name, connector, message)

    def measured(self, connector: str, metric: Metric) -> None:
        self._metrics.add(connector, metric)
        if time.monotonic() - self._measured_at >= METRICS_S:
            self._tell_metrics()

    def _tell_metrics(self) -> None:
        self._measured_at = time.monotonic()
        self._emit("metrics", metrics=to_json(self._metrics.totals()))

    def rejected(self, kind: CheckpointKind, rows: pa.RecordBatch, error: ConnectorError, ids: list[str]) -> None:
        side = "source" if kind is CheckpointKind.SOURCE else "destination"
        stream, run = self._plan.name, self._context.run.id
        # Every full refresh reads all rows, and has letters of its own.
        whose = run if self._plan.mode is SyncMode.FULL_REFRESH else ""
        unique = [digest(stream.encode(), side.encode(), whose.encode(), id.encode()) for id in ids]
        self._letters += self._context.letters.add(stream, side, rows, error, run, ids=unique, settle=False)

    def settle_rejected(self) -> None:
        self._context.letters.settle()

    def _emit(self, event: str, **more: Any) -> None:
        self._context.emit({"event": event, "stream": self._plan.name, **more})


def planned_table(
    manager: ManagedDestination, info: OpenInfo, stream: StreamContext, schema: pa.Schema
) -> tuple[SchemaPlan, list[str]]:
    """How the table of a stream is to change, and the statements that change it. Changes nothing. `info`: what the
    destination has said at its opening."""
    live = typed(lambda: manager.describe(stream))
    landed = typed(lambda: manager.landed(schema))
    plan = plan_schema(schema, landed, live, stream.policies.schema_evolution)
    statements = typed(lambda: manager.statements(stream, live, plan.table))
    check_statements(info, stream, statements)
    return plan, statements
