"""Generations and lost commits: what makes a destination exactly-once."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from gauss.connect.attempt import Attempt, Outcome, close, typed
from gauss.connect.conformance.bench import SYNC
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, check
from gauss.connect.conformance.compare import difference, lost_and_doubled
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.kit_sync import KitSync, described, succeeded, wait_for
from gauss.connect.conformance.proxy import Proxy, moved, server_of
from gauss.connect.conformance.scratch import MemoryState, Observed
from gauss.connect.conformance.watch import Pause
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.stream_job import planned_table
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Mark
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import SyncMode

BATCH = 10
LOST_S = 0.3


class Generation:
    """A run of one stream with a generation of its own, outside a sync."""

    def __init__(self, sync: KitSync, number: int, partition: Any = None) -> None:
        self.sync, self.number = sync, number
        self.plan = sync.plan()[0]
        self.side = sync.side(CheckpointKind.DEST)
        self.context = self.plan.context()
        self.observed = Observed()
        self.manager, info = self.side.open(StreamHost(self._run(None), CheckpointKind.DEST, self.side.id))
        schema, statements = planned_table(self.manager, info, self.context, self.plan.schema())
        self.manager.prepare(self.context, statements, number)
        if self.plan.mode is not SyncMode.FULL_REFRESH and (mark := self.manager.watermark(self.context, "")):
            self.context = self.plan.context(mark.cursor)
        self.attempt = Attempt(self._run(schema, partition), sync.side(CheckpointKind.SOURCE), self.side)

    def _run(self, schema: Any, partition: Any = None) -> StreamRun:
        return StreamRun(
            self.context,
            MemoryState(),
            self.observed,
            pipeline=SYNC,
            generation=self.number,
            schema=schema,
            partition=partition,
        )

    def complete(self) -> Outcome:
        """Runs to the end, and makes the rows visible; the manager is closed."""
        try:
            outcome = self.attempt()
            if outcome.error is None:
                typed(lambda: self.manager.finish(self.context, self.number))
            return outcome
        except ConnectorError as error:
            return Outcome(error=error)
        finally:
            close(self.manager)


def _replaced(bench: DestinationBench, old: KitSync, new: KitSync) -> None:
    """Pauses a run in its middle, lets a newer one complete, and resumes it: it must fail."""
    pause = Pause(call=8)
    bench.record(old).on_call = pause
    first, outcomes = Generation(old, 1), list[Outcome]()
    thread = threading.Thread(target=lambda: outcomes.append(first.complete()), daemon=True)
    thread.start()
    try:
        check(pause.reached.wait(bench.settings.timeout_secs), "the destination made no calls to its host")
        newer = Generation(new, 2).complete()
        if newer.error is not None:
            raise CaseFailed(f"the newer run failed: {described(newer.error)}")
    finally:
        pause.resume()
    if not wait_for(lambda: not thread.is_alive(), bench.settings.patience_secs):
        bench.hung = True
        raise CaseFailed("the older run did not end")
    check(outcomes[0].error is not None, "the older run went on and committed")


@CASES.destination("fence.incremental", "A paused run of an older generation commits nothing after a newer one began.")
def fences_older_runs(bench: DestinationBench) -> None:
    bench.needs_managed()
    bench.needs_reading()
    stream = bench.stream_name("fence")
    how: dict[str, Any] = {"generator": {"batch_rows": BATCH}}
    old, new = (bench.prepare(plain(100, word=word), stream, **how) for word in ("old", "new"))
    _replaced(bench, old, new)
    if text := lost_and_doubled(plain(100), bench.read_back(stream)):
        raise CaseFailed(text)


@CASES.destination("fence.replace", "A paused full refresh of an older generation does not replace a newer one.")
def fences_older_refreshes(bench: DestinationBench) -> None:
    bench.needs_managed()
    bench.needs_reading()
    bench.needs_mode("replace")
    stream = bench.stream_name("refresh")
    how: dict[str, Any] = {"generator": {"batch_rows": BATCH}, "write": "replace"}
    old, new = (bench.prepare(plain(100, word=word), stream, **how) for word in ("old", "new"))
    _replaced(bench, old, new)
    bench.must_hold(stream, plain(100, word="new"))


@CASES.destination("fence.older_prepare", "An older generation is refused by prepare after a newer one.")
def refuses_older_prepares(bench: DestinationBench) -> None:
    bench.needs_managed()
    stream = bench.stream_name("prepare")
    newer = Generation(bench.prepare(plain(20), stream), 2)
    close(newer.manager)
    try:
        older = Generation(bench.prepare(plain(20), stream), 1)
    except ConnectorError as error:
        check(not error.retryable, f"the refusal is retryable: {described(error)}")
        return
    close(older.manager)
    raise CaseFailed("generation 1 was prepared after generation 2")


@CASES.destination("fence.parts", "Parts that several instances write are all there after finish, each row once.")
def writes_parts(bench: DestinationBench) -> None:
    bench.needs_managed()
    bench.needs_reading()
    stream = bench.stream_name("parts")
    halves = plain(40), plain(40, first=41)
    runs = []
    for number, rows in enumerate(halves):
        sync = bench.prepare(rows, stream, mode="full_refresh")
        runs.append(Generation(sync, 1, partition={"part": number}))
    for run in runs:
        outcome = run.attempt()
        if outcome.error is not None:
            raise CaseFailed(described(outcome.error))
    for _ in range(2):  # idempotent
        typed(lambda: runs[0].manager.finish(runs[0].context, 1))
    for run in runs:
        close(run.manager)
    if text := difference(pa.concat_tables(halves), bench.read_back(stream)):
        raise CaseFailed(text)


@CASES.destination("commit.unknown", "If the answer to a commit is lost, a retry settles it: each row is there once.")
def settles_unknown_commits(bench: DestinationBench) -> None:
    bench.needs_managed()
    bench.needs_reading()
    stream, rows = bench.stream_name("unknown"), plain(100)
    with Proxy(*server_of(bench.target)) as proxy:
        there = moved(bench.target, "127.0.0.1", proxy.port)
        sync = bench.prepare(rows, stream, generator={"batch_rows": BATCH}, config=there, max_attempts=5)
        lost = threading.Event()

        def lose(mark: Mark) -> None:
            if mark.id == 5 and not lost.is_set():
                lost.set()
                proxy.lose_answers(LOST_S)

        bench.record(sync).on_mark = lose
        succeeded(bench.run(sync))
    if not lost.is_set():
        raise NotApplicable("the destination does not take marks: the kit can't tell when it commits")
    if text := lost_and_doubled(rows, bench.read_back(stream)):
        raise CaseFailed(text)
