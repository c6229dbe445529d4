"""A sync: checked, planned and run."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gauss.config.secrets import Redactor, remember_written
from gauss.config.spec import SparkSection
from gauss.config.syncs import SyncDef
from gauss.connect.attempt import Side, close, typed
from gauss.connect.evolution import ColumnChange
from gauss.connect.features import check_reading, check_writing
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.letters import SyncLetters
from gauss.connect.placement import Placement, place
from gauss.connect.plan import StreamPlan, discovered, plan_sync
from gauss.connect.runner import LocalRunner, Runner
from gauss.connect.runs import StreamRows, SyncRun, start_run
from gauss.connect.sides import make_side
from gauss.connect.state import StateStore
from gauss.connect.stream_job import Emit, StreamJob, StreamResult, SyncContext, planned_table
from gauss.contracts.connector.connector import ManagedDestination
from gauss.contracts.connector.errors import FENCED, ConnectorError
from gauss.contracts.connector.lifecycle import Catalog, OpenInfo, ValidationResult
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import Columns, StreamContext, SyncMode

log = logging.getLogger("gauss.connect")
SOURCE, DEST = CheckpointKind.SOURCE, CheckpointKind.DEST
GRACE_S = 30.0
"""How long connectors get to end when a sync is broken off; those that do not are left behind."""
LOOK_S = 0.2
STATE_FILE = "state.db"
T = TypeVar("T")


@dataclass(frozen=True)
class TableChange:
    """What a run would do to the table of a stream."""

    stream: str
    mode: str
    write: str
    managed: bool = False
    """Whether the host makes the table; else its destination does, in a way that is not known."""
    changes: list[ColumnChange] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)


@dataclass
class SyncResult:
    """What became of a run."""

    status: str
    """`succeeded`, `failed` or `cancelled`."""
    streams: list[StreamResult]
    error: ConnectorError | None = None


class Sync:
    """One `[[syncs]]` entry in a data directory."""

    def __init__(
        self,
        definition: SyncDef,
        base_dir: Path,
        data_dir: Path,
        emit: Emit = lambda _: None,
        *,
        spark: SparkSection | None = None,
        local: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        """`local`: no Spark unless a transform needs it; `redactor`: knows the secrets of the config. Raises
        ConfigError or PluginError."""
        self.definition = definition
        self._redactor = Redactor(redactor.secrets if redactor is not None else ())
        remember_written(definition.model_dump(mode="json"), self._redactor)  # also those of embedded servers
        self._places, self._spark, self._local = (base_dir, data_dir), spark or SparkSection(), local
        self._folder = data_dir / "connect"
        self._emit = emit
        self._sides = {
            SOURCE: make_side("source", definition, base_dir, data_dir),
            DEST: make_side("destination", definition, base_dir, data_dir),
        }
        self._jobs: list[StreamJob] = []
        self._looking: list[StreamRun] = []
        """Runs of connectors that are only looked at."""
        self._draining = threading.Event()
        self._broken: ConnectorError | None = None
        self._broken_at: float | None = None

    # --- looking, without a run ---

    def check(self) -> dict[str, ValidationResult]:
        """Opens, validates and closes both connectors; raises ConnectorError."""
        return {"source": self.check_side(SOURCE), "destination": self.check_side(DEST)}

    def check_side(self, kind: CheckpointKind) -> ValidationResult:
        """Opens, validates and closes one connector; raises ConnectorError."""
        connector, _ = self._open(kind)
        try:
            found: ValidationResult = typed(lambda: connector.validate(self._sides[kind].config))
            return found
        finally:
            close(connector)

    def discover(self) -> Catalog:
        """The streams of the source; raises ConnectorError."""
        source, _ = self._open(SOURCE)
        try:
            return discovered(source)
        finally:
            close(source)

    def plan(self, store: StateStore | None = None) -> list[StreamPlan]:
        """The streams that a run would move; raises ConnectorError with all faults. `store`: what the source remembers
        of earlier runs; None: nothing."""
        destination, proposed = self._open(DEST)
        close(destination)
        source, info = self._open(SOURCE, store=store)
        try:
            plans = plan_sync(self.definition, source, [info, proposed])
            for each in plans:
                check_reading(self._sides[SOURCE].id, info, each.context())
                check_writing(self._sides[DEST].id, proposed, each.context())
            return plans
        finally:
            close(source)

    def placement(self) -> Placement:
        """Where a run would take place, and why; raises ConnectorError."""
        return place(self.definition, self.plan(), local=self._local)

    def _runner(self, plans: list[StreamPlan]) -> Runner:
        """The runner of a run, which is to be closed."""
        placed = place(self.definition, plans, local=self._local)
        log.info("%s runs %s", self.definition.name, placed)
        if not placed.spark:
            return LocalRunner()
        self._emit({"event": "spark", "why": placed.why})
        from gauss.connect.spark.runner import SparkRunner

        return SparkRunner(self.definition, self._spark, *self._places)

    def dry_run(self) -> list[TableChange]:
        """What a run would do to the tables; changes nothing."""
        plans = self._plan_as_known()
        runner: Runner = self._runner(plans) if self.definition.queried else LocalRunner()
        try:
            return self._table_changes(plans, runner)
        finally:
            runner.close()

    def _plan_as_known(self) -> list[StreamPlan]:
        """The plan with what earlier runs have found out; no state is made for it."""
        if self.definition.state is None and not (self._folder / STATE_FILE).exists():
            return self.plan()
        store = self.store()
        try:
            return self.plan(store)
        finally:
            store.close()

    def _table_changes(self, plans: list[StreamPlan], runner: Runner) -> list[TableChange]:
        found = []
        for plan in plans:
            stream = plan.context()
            manager, info = self._open(DEST, stream)
            try:
                made = TableChange(plan.name, plan.definition.mode, plan.definition.writing)
                if isinstance(manager, ManagedDestination):
                    schema, statements = planned_table(manager, info, stream, runner.result_schema(plan))
                    made = replace(made, managed=True, changes=schema.changes, statements=statements)
                found.append(made)
            finally:
                close(manager)
        return found

    def _open(
        self, kind: CheckpointKind, stream: StreamContext | None = None, store: StateStore | None = None
    ) -> tuple[Any, OpenInfo]:
        stream = stream or StreamContext("", Columns([]), SyncMode.FULL_REFRESH)
        run = StreamRun(stream, _ReadState(store), _Nobody(), pipeline=self.definition.name)
        self._looking.append(run)
        if self._broken is not None:
            run.interrupt()
        side: Side = self._sides[kind]
        return side.open(StreamHost(run, kind, side.id))

    # --- running ---

    def store(self) -> StateStore:
        """The state of this sync; to be closed by the caller."""
        return StateStore(self.definition.state or self._folder / STATE_FILE)

    @property
    def letters(self) -> SyncLetters:
        return SyncLetters(self._folder / "letters", self.definition.name)

    def run(self) -> SyncResult:
        """Moves all streams; raises Rejected if another run of this sync lives, Unavailable if its state can't be
        reached."""
        store = self.store()
        try:
            run = start_run(store, self.definition.name)
            run.on_lost = lambda: self.break_off(_taken_over(run))
            status, detail = "failed", "it was interrupted"
            streams: list[StreamRows] = []
            try:
                with _Deadline(self, self.definition.deadline):
                    result = self._in_time(lambda: self._run(run, store))
                status, detail = result.status, self._redactor.redact(result.error.message if result.error else "")
                streams = [
                    StreamRows(each.stream, each.status, each.write.records_written, each.write.bytes_written)
                    for each in result.streams
                ]
            finally:
                run.end(status, detail, streams)
            return result
        finally:
            store.close()

    def _in_time(self, work: Callable[[], SyncResult]) -> SyncResult:
        """The result of `work`, which runs in a thread: signals are served meanwhile, and a connector that does not
        return after the sync was broken off is not waited for."""
        done = _in_thread(work, "sync")
        while not done.done():
            if self._broken_at is not None and time.monotonic() - self._broken_at > GRACE_S:
                log.warning("%s: a connector does not end, and is left behind", self.definition.name)
                self._emit = lambda _: None  # what it does from here on is no part of the run
                return SyncResult("failed", [], self._broken)
            wait([done], LOOK_S)
        return done.result()

    def _run(self, run: SyncRun, store: StateStore) -> SyncResult:
        self._emit({"event": "start", "sync": run.sync, "run": run.id})
        try:
            plans = self.plan(store)
            runner = typed(lambda: self._runner(plans))
        except ConnectorError as error:
            return SyncResult("failed", [], self._broken or error)
        context = SyncContext(
            *(run.sync, run, store, self.letters, self._sides[SOURCE], self._sides[DEST], runner),
            *(self.definition.max_attempts, self.definition.follow, self.definition.checkpoint, self._tell),
            lambda name: next(each for each in self.plan(store) if each.name == name),
        )
        try:
            return self._move([StreamJob(context, plan) for plan in plans])
        finally:
            runner.close()

    def _move(self, jobs: list[StreamJob]) -> SyncResult:
        self._jobs = jobs
        if self._broken is not None or self._draining.is_set():
            self.drain() if self._broken is None else self.break_off(self._broken)
        parallel = len(jobs) if self.definition.follow else self.definition.max_parallel_streams
        waiting = deque(jobs)

        def work() -> list[StreamResult]:
            found = []
            while waiting:
                try:
                    job = waiting.popleft()
                except IndexError:  # another thread was first
                    break
                found.append(self._one(job))
            return found

        threads = [_in_thread(work, "stream") for _ in range(min(parallel, len(jobs)))]
        wait(threads)
        places = {job.stream: place for place, job in enumerate(jobs)}
        results = sorted((each for thread in threads for each in thread.result()), key=lambda each: places[each.stream])
        failed = next((each for each in results if each.status == "failed"), None)
        cancelled = any(each.status == "cancelled" for each in results)
        status = "failed" if failed is not None else "cancelled" if cancelled else "succeeded"
        return SyncResult(status, results, failed.error if failed is not None else None)

    def _one(self, job: StreamJob) -> StreamResult:
        result = job()
        summary = msgspec.to_builtins(result.read) | msgspec.to_builtins(result.write)
        self._emit({"event": "stream", "stream": result.stream, "status": result.status, **summary})
        if result.error is not None:
            self._emit(
                {"event": "error", "stream": result.stream, "error": msgspec.json.decode(result.error.to_json())}
            )
        return result

    def _tell(self, event: dict[str, Any]) -> None:
        self._emit(event)

    def drain(self) -> None:
        """Ends the sources; what they have emitted is still written."""
        self._draining.set()
        for job in self._jobs:
            job.drain()

    def break_off(self, error: ConnectorError) -> None:
        """Ends all streams where they are. The first error counts."""
        self._broken = error = self._broken or error
        self._broken_at = self._broken_at or time.monotonic()
        for job in self._jobs:
            job.break_off(error)
        for run in list(self._looking):
            run.interrupt()


def _in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Runs `work` in a thread that does not keep the process alive, as those of a pool do."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


def _taken_over(run: SyncRun) -> ConnectorError:
    return ConnectorError.internal(
        FENCED,
        f"run {run.id} was taken over by another one: no sign of life of it has reached the state store",
    )


class _Deadline:
    """Breaks a sync off when its time is over."""

    def __init__(self, sync: Sync, deadline_ms: int | None) -> None:
        self._timer: threading.Timer | None = None
        if deadline_ms is not None:
            late = ConnectorError.internal("DEADLINE", f"not finished within {deadline_ms / 1000:g} s (deadline)")
            self._timer = threading.Timer(deadline_ms / 1000, sync.break_off, [late])
            self._timer.daemon = True

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _ReadState:
    """The state of connectors that are only looked at: nothing is stored."""

    def __init__(self, store: StateStore | None) -> None:
        self._store = store

    def get(self, owner: str, key: str) -> bytes | None:
        return None if self._store is None else self._store.get(owner, key)

    def put(self, owner: str, key: str, value: bytes) -> None:  # noqa: ARG002
        raise ConnectorError.internal("NO_RUN", f"state {key} of {owner} can be stored in a run only")

    def compare_and_set(self, owner: str, key: str, expected: bytes | None, value: bytes) -> bool:  # noqa: ARG002
        raise ConnectorError.internal("NO_RUN", f"state {key} of {owner} can be stored in a run only")


class _Nobody:
    """Observes connectors that are only looked at."""

    def committed(self, checkpoint: Any) -> None: ...

    def progressed(self, kind: Any, records: int, size: int) -> None: ...

    def logged(self, connector: str, level: Any, message: str) -> None: ...

    def measured(self, connector: str, metric: Any) -> None: ...

    def rejected(self, kind: Any, rows: Any, error: Any, ids: Any) -> None: ...

    def settle_rejected(self) -> None: ...
