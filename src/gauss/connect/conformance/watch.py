"""Watches a connector: every call that it makes to its host is recorded, then passed on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from gauss.connect.arrow_ipc import read_batch
from gauss.connect.attempt import Side
from gauss.connect.host import StreamHost
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Mark, Opaque
from gauss.contracts.connector.progress import Checkpoint

Hook = Callable[[], None]


@dataclass(frozen=True)
class Emitted:
    """A batch that a source has tried to emit."""

    rows: int
    size: int
    schema: pa.Schema | None = None
    """None for an opaque batch."""
    kind: str = ""
    """The encoding of an opaque batch."""
    unpacked: int | None = None
    """The size of the rows of a batch in Arrow IPC, which may be compressed."""
    fault: str = ""
    """Why a batch in Arrow IPC can't be read."""


@dataclass
class Record:
    """What a connector did."""

    calls: int = 0
    emitted: list[Emitted] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    """For each checkpoint: how many batches were emitted, or delivered, before it."""
    delivered: int = 0
    rejected: list[ConnectorError] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """What it has logged."""
    returned: bool = False
    late: list[str] = field(default_factory=list)
    """Calls after its run has returned."""
    on_call: Hook = lambda: None
    on_mark: Callable[[Mark], None] = lambda _: None
    on_checkpoint: Callable[[Checkpoint], None] = lambda _: None


class WatchedHost:
    """A host that records. Everything else is the host's own."""

    def __init__(self, host: StreamHost, record: Record) -> None:
        self._host, self._record = host, record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def _note(self, call: str) -> None:
        self._record.calls += 1
        if self._record.returned:
            self._record.late.append(call)
        self._record.on_call()

    def emit_batch(self, batch: pa.RecordBatch | bytes | Opaque) -> None:
        self._note("emit_batch")
        if not self._record.returned:
            self._record.emitted.append(_emitted(batch))
        self._host.emit_batch(batch)

    def next_delivery(self) -> Batch | Mark | None:
        self._note("next_batch")
        found = self._host.next_delivery()
        if isinstance(found, Batch):
            self._record.delivered = found.id
        elif found is not None:
            self._record.on_mark(found)
        return found

    def next_batch(self) -> pa.RecordBatch | Opaque | None:
        while (found := self.next_delivery()) is not None:
            if isinstance(found, Batch):
                return found.rows
        return None

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self._note("checkpoint")
        self._record.checkpoints.append(checkpoint)
        self._record.behind.append(max(len(self._record.emitted), self._record.delivered))
        self._record.on_checkpoint(checkpoint)
        self._host.checkpoint(checkpoint)

    def reject(self, rows: pa.RecordBatch, error: ConnectorError) -> None:
        self._note("reject")
        self._record.rejected.append(error)
        self._host.reject(rows, error)

    def report_progress(self, records: int, size: int) -> None:
        self._note("report_progress")
        self._host.report_progress(records, size)

    def log(self, level: Any, message: str) -> None:
        self._record.lines.append(message)
        self._host.log(level, message)


def _emitted(batch: pa.RecordBatch | bytes | Opaque) -> Emitted:
    if isinstance(batch, Opaque):
        return Emitted(batch.rows, len(batch.payload), kind=batch.kind)
    if isinstance(batch, bytes):
        try:
            rows = read_batch(batch)
            return Emitted(rows.num_rows, len(batch), rows.schema, unpacked=rows.nbytes)
        except ConnectorError as error:  # the host refuses it, with the reason
            return Emitted(0, len(batch), fault="" if error.code == "EMPTY_BATCH" else error.message)
    return Emitted(batch.num_rows, batch.nbytes, batch.schema)


def watched(side: Side, record: Record) -> Side:
    """The same side, watched. An attempt starts a new record of what was emitted and delivered."""

    def make(host: StreamHost) -> Any:
        made = side.make(cast(StreamHost, WatchedHost(host, record)))
        for name in ("run_read", "run_write"):
            if (run := getattr(made, name, None)) is not None:
                _watch_run(made, name, run, record)
        return made

    return Side(make, side.id, side.version, side.config)


def _watch_run(made: Any, name: str, run: Callable[[Any], Any], record: Record) -> None:
    def watched_run(stream: Any) -> Any:
        record.emitted.clear()
        record.checkpoints.clear()
        record.behind.clear()
        record.delivered, record.returned = 0, False
        try:
            return run(stream)
        finally:
            record.returned = True

    setattr(made, name, watched_run)


class Pause:
    """Stops a connector in a call to its host until it is resumed. Used as `Record.on_call`."""

    def __init__(self, call: int) -> None:
        """`call`: the number of the call, from 1."""
        self._left = call
        self.reached, self._resumed = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            self._resumed.wait()

    def resume(self) -> None:
        self._resumed.set()


def kill_at(call: int, delay_s: float) -> Hook:
    """Kills this process at the n-th call of both sides, after a delay: it may then be anywhere, also in a commit."""
    left, lock = [call], threading.Lock()

    def die() -> None:
        time.sleep(delay_s)
        os.kill(os.getpid(), signal.SIGKILL)

    def on_call() -> None:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                threading.Thread(target=die, daemon=True).start()

    return on_call
