"""One attempt at a stream as a Spark job: plans the partitions, and serves the tasks until all have ended."""

from __future__ import annotations

import functools
import logging
import operator
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec.structs import astuple

from gauss.connect.arrow_ipc import read_batch
from gauss.connect.attempt import Outcome, Side, close, typed
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.metrics import Key, key_of
from gauss.connect.spark.link import LinkServer
from gauss.connect.typed import typed_error
from gauss.contracts.connector.connector import PartitionedSource
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import LogLevel
from gauss.contracts.connector.json_form import decode, encode
from gauss.contracts.connector.progress import (
    Checkpoint,
    CheckpointKind,
    Counter,
    Metric,
    ReadSummary,
    WritePerf,
    WriteSummary,
)

log = logging.getLogger("gauss.connect")
LOOK_S = 0.02
END_S = 10.0
"""How long tasks get to end by themselves when the attempt is broken off."""


class Job(Protocol):
    """A job of Spark: `spark.standing.StandingJob`, or the query of a transform."""

    @property
    def is_active(self) -> bool: ...

    def error(self) -> BaseException | None:
        """Why it failed, when it has ended; None if it did not."""
        ...

    def cancel(self) -> None: ...


Submit = Callable[[tuple[str, int, bytes], list[Any]], Job]
"""Starts the job: gets the address of the link and the partitions."""


class SparkAttempt:
    """Runs the two sides of a stream in the tasks of a job. Has the methods of `attempt.Attempt`, and those that tasks
    call through their link."""

    def __init__(
        self, run: StreamRun, source: Side, submit: Submit, *, parts: int, host: str, drains: bool, reports: bool
    ) -> None:
        """`parts`: about how many partitions are wanted; `host`: where tasks reach this process; `drains`: whether a
        part of the stream can be written; `reports`: whether each partition has a task that reports its end, as
        opposed to a query that need not read all of them."""
        self.run = run
        self.draining = False
        self._drains, self._reports = drains, reports
        self._source, self._submit, self._parts, self._host = source, submit, parts, host
        self._outcomes: dict[int, Outcome] = {}
        self._totals: dict[tuple[str, int], tuple[int, int]] = {}
        self._counters: dict[Key, dict[int, int]] = {}
        self._claimed: set[int] = set()
        start = run.stream.cursor_info.last_value if run.stream.cursor_info is not None else None
        self._cursor = None if start is None else encode(start)  # stays if the source has nothing new
        self._error: ConnectorError | None = None
        self._lock = threading.Lock()

    # --- as of an attempt ---

    def drain(self) -> None:
        """Ends the sources; what they have emitted is still written. Tasks learn it by their next pulse."""
        self.draining = True

    def break_off(self, error: ConnectorError) -> None:
        """Ends all tasks where they are."""
        with self._lock:
            self._error = self._error or error
        self.run.interrupt()  # the source that plans the partitions

    def __call__(self) -> Outcome:
        """Runs to the end of the job; raises nothing."""
        try:
            host = StreamHost(self.run, CheckpointKind.SOURCE, self._source.id)
            source, _ = self._source.open(host)
        except ConnectorError as error:
            return Outcome(error=error)
        try:
            partitions = self._partitions(source)  # consistent with each other as long as this source is open
            self._run(partitions)
        except Exception as error:
            self.break_off(typed_error(error))
        finally:
            close(source)
        return self._outcome()

    def _partitions(self, source: Any) -> list[Any]:
        if self._parts == 1 or not isinstance(source, PartitionedSource):
            return [None]
        return typed(lambda: source.partitions(self.run.stream, self._parts)) or [None]

    def _run(self, partitions: list[Any]) -> None:
        server = LinkServer(self, self._host)
        try:
            job = typed(lambda: self._submit(server.address, partitions))
            while job.is_active and self._error is None and (self._drains or not self.draining):
                time.sleep(LOOK_S)
            if job.is_active:
                server.close()  # the tasks notice, and end their connectors
                deadline = time.monotonic() + END_S
                while job.is_active and time.monotonic() < deadline:
                    time.sleep(LOOK_S)
                job.cancel()
            elif (failure := job.error()) is not None:
                log.debug("the job failed", exc_info=failure)
                self.break_off(lost_tasks(failure))
            elif self._reports and (missing := set(range(len(partitions))) - self._outcomes.keys()):
                # A task that could not reach this process has done nothing, and is no failure to Spark.
                self.break_off(lost_tasks(f"{len(missing)} of {len(partitions)} tasks have reported nothing"))
        finally:
            server.close()

    def _outcome(self) -> Outcome:
        found = [outcome for _, outcome in sorted(self._outcomes.items())]
        read = functools.reduce(_both_reads, [each.read for each in found if each.read is not None], ReadSummary())
        write = functools.reduce(_both_writes, [each.write for each in found if each.write is not None], WriteSummary())
        return Outcome(read, write, self._error)

    # --- what tasks call ---

    def call(self, name: str, arguments: list[Any]) -> Any:
        observer, state = self.run.observer, self.run.state
        match name, arguments:
            case "pulse", [number, totals]:
                self._progressed(number, totals)
            case "committed", [checkpoint]:
                observer.committed(decode(checkpoint, Checkpoint))
            case "finished", [number, outcome]:
                self._finished(number, outcome)
            case "rejected", [kind, rows, error, ids]:
                observer.rejected(CheckpointKind(kind), read_batch(rows), ConnectorError.from_json(error)[0], ids)
            case "settle_rejected", []:
                observer.settle_rejected()
            case "logged", [connector, level, message]:
                observer.logged(connector, LogLevel(level), message)
            case "measured", [number, connector, metric]:
                observer.measured(connector, self._summed(number, connector, decode(metric, Metric)))
            case "get", [owner, key]:
                return state.get(owner, key)
            case "put", [owner, key, value]:
                state.put(owner, key, value)
            case "compare_and_set", [owner, key, expected, value]:
                return state.compare_and_set(owner, key, expected, value)
            case "claim", [number]:
                return self._claim(number)
            case "cursor", [cursor]:
                self._cursor = cursor
            case "last_cursor", []:
                return self._cursor
            case _:
                raise ConnectorError.internal("NO_CALL", f"no call {name} with {len(arguments)} arguments")
        return None

    def _claim(self, number: int) -> bool:
        """Whether a task is the first of its number in this attempt."""
        with self._lock:
            is_first = number not in self._claimed
            self._claimed.add(number)
        return is_first

    def _progressed(self, number: int, totals: list[tuple[str, int, int]]) -> None:
        with self._lock:
            self._totals |= {(kind, number): (records, size) for kind, records, size in totals}
            sums = {
                kind: tuple(map(sum, zip(*(each for (of, _), each in self._totals.items() if of == kind), strict=True)))
                for kind, _, _ in totals
            }
        for kind, (records, size) in sums.items():
            self.run.observer.progressed(CheckpointKind(kind), records, size)

    def _summed(self, number: int, connector: str, metric: Metric) -> Metric:
        """A counter of a task is a part of that of the attempt."""
        if not isinstance(metric.value, Counter):
            return metric
        with self._lock:
            parts = self._counters.setdefault(key_of(connector, metric), {})
            parts[number] = metric.value.value
            return msgspec.structs.replace(metric, value=Counter(sum(parts.values())))

    def _finished(self, number: int, outcome: list[bytes | None]) -> None:
        read, write, error = outcome
        self._outcomes[number] = Outcome(
            None if read is None else msgspec.json.decode(read, type=ReadSummary),
            None if write is None else msgspec.json.decode(write, type=WriteSummary),
        )
        if error is not None:
            self.break_off(ConnectorError.from_json(error)[0])


def lost_tasks(failure: BaseException | str) -> ConnectorError:
    """Spark has given the job up: its tasks died several times, or have no executor."""
    text = str(failure).strip().split("\n", 1)[0]
    return ConnectorError.transient_network("TASKS_LOST", f"Spark ended the job: {text[:300]}")


def _both_reads(left: ReadSummary, right: ReadSummary) -> ReadSummary:
    return ReadSummary(*map(operator.add, astuple(left), astuple(right)))


def _both_writes(left: WriteSummary, right: WriteSummary) -> WriteSummary:
    perfs = [astuple(each.perf) for each in (left, right) if each.perf is not None]
    return WriteSummary(
        left.records_written + right.records_written,
        left.bytes_written + right.bytes_written,
        left.batches_written + right.batches_written,
        left.checkpoint_count + right.checkpoint_count,
        WritePerf(*map(sum, zip(*perfs, strict=True))) if perfs else None,
    )
