"""What a connector calls while it reads or writes one stream: the same for connectors in Python and in Wasm."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from gauss.connect.arrow_ipc import read_batch
from gauss.connect.channel import Channel, Rejection, Weight
from gauss.connect.checkpoints import Correlation
from gauss.connect.evolution import SchemaPlan
from gauss.connect.reject_ids import RejectIds
from gauss.connect.typed import typed
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import (
    BATCH_OVERHEAD_BYTES,
    Batch,
    LogLevel,
    Mark,
    Opaque,
    checked_key,
    checked_value,
)
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Metric, StateScope
from gauss.contracts.connector.stream import DataErrorPolicy, StreamContext, SyncMode

log = logging.getLogger("gauss.connect")


class StateBackend(Protocol):
    """Values by owner and key. `owner` is the pipeline, a stream of it or a connector of it."""

    def get(self, owner: str, key: str) -> bytes | None: ...

    def put(self, owner: str, key: str, value: bytes) -> None: ...

    def compare_and_set(self, owner: str, key: str, expected: bytes | None, value: bytes) -> bool: ...


class Observer(Protocol):
    """Who is told what happens in a run of a stream. Called by the threads of both connectors."""

    def committed(self, checkpoint: Checkpoint) -> None:
        """A source's checkpoint has become safe: store its cursor. The destination waits meanwhile."""
        ...

    def progressed(self, kind: CheckpointKind, records: int, size: int) -> None: ...

    def logged(self, connector: str, level: LogLevel, message: str) -> None: ...

    def measured(self, connector: str, metric: Metric) -> None: ...

    def rejected(self, kind: CheckpointKind, rows: pa.RecordBatch, error: ConnectorError, ids: list[str]) -> None:
        """Rows for the dead letters, with an id each: rows that come again after a retry have the same. They are
        durable after the next `settle_rejected`."""
        ...

    def settle_rejected(self) -> None:
        """Makes all rows durable that were rejected: called before a cursor can pass them."""
        ...


class StreamRun:
    """What the two connectors of one run of a stream share."""

    def __init__(
        self,
        stream: StreamContext,
        state: StateBackend,
        observer: Observer,
        *,
        pipeline: str,
        generation: int = 1,
        partition: Any = None,
        opaque: str = "",
        schema: SchemaPlan | None = None,
        program: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        follow: bool = False,
        most_in_flight: Weight | None = None,
    ) -> None:
        """`program`: what is made of rows; `schema`: how they are made to fit the destination's table. None: rows are
        delivered as they are."""
        self.stream = stream
        self.state = state
        self.observer = observer
        self.pipeline = pipeline
        self.generation = generation
        self.partition = partition
        self.opaque = opaque
        self.schema = schema
        self.program = program
        self.follow = follow
        self.channel = Channel(stream.limits.max_inflight_batches, most_in_flight)
        self.correlation = Correlation()
        self.emitted = self.delivered = self.rejections = 0
        self.cancel = threading.Event()
        self._lock = threading.Lock()
        self._connectors: list[Any] = []
        self._interrupted = False
        self._attaching = threading.Lock()

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        with self._lock:
            most = self.emitted if checkpoint.kind is CheckpointKind.SOURCE else self.delivered
            safe = self.correlation.add(checkpoint, most, self.rejections)
            if safe is not None:
                self.observer.committed(safe)

    def lettered(self) -> None:
        """A rejection of the source is kept, so that the cursor may move over it."""
        with self._lock:
            if (safe := self.correlation.lettered()) is not None:
                self.observer.committed(safe)

    def drain(self) -> None:
        """Ends the source; what it has emitted is still written."""
        self.cancel.set()
        self.channel.drain()

    def break_off(self, error: ConnectorError) -> None:
        """Ends both sides."""
        self.cancel.set()
        self.channel.break_off(error)

    def attach(self, connector: Any) -> None:
        """A connector of this run is about to be opened."""
        with self._attaching:
            self._connectors.append(connector)
            late = self._interrupted
        if late:
            _interrupt(connector)

    def interrupt(self) -> None:
        """Ends connectors that can be interrupted where they are, also those that are attached later."""
        with self._attaching:
            self._interrupted = True
            found = list(self._connectors)
        for connector in found:
            _interrupt(connector)


class StreamHost:
    """The host of one connector in a run of a stream. Implements `contracts.connector.host.Host`."""

    def __init__(self, run: StreamRun, kind: CheckpointKind, connector: str) -> None:
        self.connector = connector
        self.kind = kind
        self._run = run
        self._cursor: Checkpoint | None = None
        info = run.stream.cursor_info
        self._reject_ids = RejectIds(run.partition, None if info is None else info.last_value)
        self._is_unsettled = self._is_at_mark = False
        """Whether there are rejected rows that may not be durable, and whether the destination may be committing."""
        self._unsettled = 0  # rejections of the source among them

    def attach(self, connector: Any) -> None:
        """The connector of this host is about to be opened."""
        self._run.attach(connector)

    @property
    def stream(self) -> StreamContext:
        return self._run.stream

    @property
    def pipeline(self) -> str:
        return self._run.pipeline

    @property
    def generation(self) -> int:
        return self._run.generation

    @property
    def partition(self) -> Any:
        return self._run.partition

    @property
    def opaque(self) -> str:
        return self._run.opaque

    @property
    def follow(self) -> bool:
        return self._run.follow

    @property
    def committed(self) -> CursorValue | None:
        safe = self._run.correlation.committed
        return None if safe is None else safe.cursor_value

    @property
    def batch_bytes(self) -> int:
        """The largest batch that is accepted."""
        return self._run.stream.limits.max_batch_bytes + BATCH_OVERHEAD_BYTES

    def cancelled(self) -> bool:
        return self._run.cancel.is_set()

    # --- rows ---

    def emit_batch(self, batch: pa.RecordBatch | bytes | Opaque) -> None:
        self._only(CheckpointKind.SOURCE, "emit_batch")
        if isinstance(batch, Opaque) and batch.kind != self.opaque:
            agreed = self.opaque or "Arrow batches"
            raise ConnectorError.internal("OPAQUE", f"source and destination agreed on {agreed}, found {batch.kind}")
        # A batch in Arrow's memory gets its envelope when a guest reads it.
        whole = isinstance(batch, bytes)
        size, most = (len(batch), self.batch_bytes) if whole else (_size(batch), self.stream.limits.max_batch_bytes)
        if size > most:
            raise ConnectorError.config(
                "BATCH_TOO_LARGE",
                f"a batch has at most {most:,} bytes (max_batch_bytes{' and 64 KiB' if whole else ''}), found {size:,}",
                hint="emit fewer rows at once, or raise max_batch_bytes",
            )
        rows = self._decoded(batch) if isinstance(batch, bytes) else batch
        if not (rows.rows if isinstance(rows, Opaque) else rows.num_rows):
            raise ConnectorError.config("EMPTY_BATCH", "a batch has at least one row")
        self._run.channel.put(Batch(self._run.emitted + 1, rows))
        self._run.emitted += 1

    def _decoded(self, data: bytes) -> pa.RecordBatch:
        """A batch of Arrow IPC, which may be compressed: the limit is for what it holds, since that is passed on."""
        rows = read_batch(data)
        if rows.nbytes > self.batch_bytes:
            raise ConnectorError.config(
                "BATCH_TOO_LARGE",
                f"a batch has at most {self.batch_bytes:,} bytes (max_batch_bytes and 64 KiB), found {rows.nbytes:,}"
                " when it is decompressed",
                hint="emit fewer rows at once, or raise max_batch_bytes",
            )
        return rows

    def next_delivery(self) -> Batch | Mark | None:
        self._only(CheckpointKind.DEST, "next_batch")
        try:
            return typed(self._next)
        except ConnectorError as error:
            # What was taken from the channel is lost: a destination that asks again must not go on behind it.
            self._run.break_off(error)
            raise

    def _next(self) -> Batch | Mark | None:
        while not isinstance(found := self._run.channel.get(), Mark | None):
            if isinstance(found, Rejection):
                self._letter(CheckpointKind.SOURCE, found.rows, found.error)
                self._unsettled += 1
                continue
            self._is_at_mark = False
            self._run.delivered = found.id
            fitting = self._fitting(found.rows)
            if isinstance(fitting, Opaque) or fitting.num_rows:
                return Batch(found.id, fitting)
        self._settle()
        if found is not None:
            self._reject_ids.move(found.cursor)
            self._is_at_mark = True
        return found

    def _fitting(self, rows: pa.RecordBatch | Opaque) -> pa.RecordBatch | Opaque:
        """The rows as the table has them; those that do not fit are rejected."""
        if isinstance(rows, Opaque):
            return rows
        if self._run.program is not None:
            rows = self._run.program(rows)
        if self._run.schema is None:
            return rows
        fitting, bad = self._run.schema.fit(rows)
        for row, error in bad:
            self.reject(rows.slice(row, 1), error)
        return fitting

    def next_batch(self) -> pa.RecordBatch | Opaque | None:
        while (found := self.next_delivery()) is not None:
            if isinstance(found, Batch):
                return found.rows
        return None

    def reject(self, rows: pa.RecordBatch, error: ConnectorError) -> None:
        policy = self._run.stream.policies.on_data_error
        if policy is DataErrorPolicy.FAIL:
            raise error
        if policy is not DataErrorPolicy.DLQ:
            self.log(LogLevel.WARN, f"{rows.num_rows} rows skipped: {error.message}")
        elif self.kind is CheckpointKind.SOURCE:
            self._run.channel.put(Rejection(rows, error))
            self._run.rejections += 1
        else:
            self._letter(self.kind, rows, error)
            if self._is_at_mark:
                self._settle()

    def _letter(self, kind: CheckpointKind, rows: pa.RecordBatch, error: ConnectorError) -> None:
        self._is_unsettled = True
        self._run.observer.rejected(kind, rows, error, self._reject_ids.of(rows))

    def _settle(self) -> None:
        """Makes rejected rows durable, all that there are at once, so that the cursor may move over them."""
        if self._is_unsettled:
            self._run.observer.settle_rejected()
            self._is_unsettled = False
        while self._unsettled:
            self._unsettled -= 1
            self._run.lettered()

    # --- state ---

    def state_get(self, scope: StateScope, key: str) -> bytes | None:
        return self._run.state.get(self._owner(scope), checked_key(key))

    def state_put(self, scope: StateScope, key: str, value: bytes) -> None:
        self._run.state.put(self._owner(scope), checked_key(key), checked_value(value))

    def state_compare_and_set(self, scope: StateScope, key: str, expected: bytes | None, value: bytes) -> bool:
        return self._run.state.compare_and_set(self._owner(scope), checked_key(key), expected, checked_value(value))

    def _owner(self, scope: StateScope) -> str:
        """Whose state it is. The stream is always the current one."""
        if scope is StateScope.PIPELINE:
            return self._run.pipeline
        if scope is StateScope.STREAM:
            return f"{self._run.pipeline}/{self._run.stream.stream_name}"
        return f"{self._run.pipeline}//{self.connector}"

    # --- progress ---

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self._only(checkpoint.kind, "checkpoint")
        if checkpoint.stream != self._run.stream.stream_name:
            raise ConnectorError.internal(
                "BAD_CHECKPOINT", f'expected stream "{self._run.stream.stream_name}", found "{checkpoint.stream}"'
            )
        if checkpoint.kind is CheckpointKind.SOURCE and checkpoint.cursor_value is None:
            # Nothing new: without a cursor the next run would read everything again.
            checkpoint = msgspec.structs.replace(checkpoint, cursor_value=self._last_cursor())
        if checkpoint.kind is CheckpointKind.DEST:
            self._settle()
        self._run.checkpoint(checkpoint)
        if checkpoint.kind is CheckpointKind.SOURCE:
            self._cursor = checkpoint
            self._run.channel.put(Mark(checkpoint.id, checkpoint.cursor_value, final=False))

    def _last_cursor(self) -> CursorValue | None:
        info = self._run.stream.cursor_info
        if self._cursor is not None:
            return self._cursor.cursor_value
        return None if info is None else info.last_value

    def end(self) -> None:
        """Called when the source has returned: marks the end of the stream."""
        run, cursor = self._run, self._cursor
        is_behind_all = cursor is not None and cursor.id == run.emitted
        # A full refresh is committed at its end, whether or not the source makes a checkpoint there.
        if (is_behind_all or run.stream.sync_mode is SyncMode.FULL_REFRESH) and not self.cancelled():
            value = cursor.cursor_value if cursor is not None and is_behind_all else None
            run.channel.put(Mark(run.emitted, value, final=True))
        self._run.channel.end()

    def log(self, level: LogLevel, message: str) -> None:
        self._run.observer.logged(self.connector, level, message)

    def metric(self, metric: Metric) -> None:
        self._run.observer.measured(self.connector, metric)

    def report_progress(self, records: int, size: int) -> None:
        self._run.observer.progressed(self.kind, records, size)

    def _only(self, kind: CheckpointKind, call: str) -> None:
        if kind is not self.kind:
            who = "source" if kind is CheckpointKind.SOURCE else "destination"
            raise ConnectorError.internal("WRONG_SIDE", f"{call} is for a {who}")


def _interrupt(connector: Any) -> None:
    try:
        if interrupt := getattr(connector, "interrupt", None):
            interrupt()
    except Exception as error:
        log.warning("%s: interrupt failed: %s", type(connector).__name__, error)


def _size(batch: pa.RecordBatch | Opaque) -> int:
    if isinstance(batch, Opaque):
        return len(batch.payload)
    if not isinstance(batch, pa.RecordBatch):
        found, hint = type(batch).__name__, "a pyarrow.Table has them in to_batches()"
        raise ConnectorError.internal("BAD_BATCH", f"emit_batch takes a pyarrow.RecordBatch, found {found}", hint=hint)
    return int(batch.nbytes)
