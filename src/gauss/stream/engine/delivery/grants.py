"""Grants epochs to standing tasks: consecutive ranges of a processor's sources, each given to one task and published in
that order. Grants are kept in memory: a new generation starts at the ledger's ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import msgspec
import pyarrow as pa

from gauss.clients.engine.driver_messages import StandingProgress
from gauss.clients.engine.positions import At, Ends, places
from gauss.clients.engine.task_messages import (
    Busy,
    Emptied,
    Grant,
    Granted,
    Next,
    Outcome,
    ProcessorFailure,
    Publish,
    PublishAll,
    Published,
    TaskReport,
)
from gauss.model.errors import Fenced, GaussError
from gauss.stream.engine.delivery.batch_planning import BOUNDED_LOOK_S, Sources
from gauss.stream.engine.delivery.epochs import rows_between
from gauss.stream.engine.delivery.job_claims import Job
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.delivery.publish import Publisher
from gauss.stream.engine.delivery.skips import Skip
from gauss.stream.engine.delivery.stages import Stages
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Topic

NEAR_ROWS = 65_536
"""Maximum lag of a processor that shares a task with others: one that is further behind reads alone until it has caught
up."""

BUSY_FRESH_S = 3.0


class Grants:
    """Answers `Next`, and publishes for standing tasks. Lock order: a processor, topics, this, the ledger."""

    def __init__(self, topics: Mapping[str, Topic], ledger: Ledger, publisher: Publisher, sources: Sources) -> None:
        self._topics = topics
        self._ledger = ledger
        self._publisher = publisher
        self._sources = sources
        self._lock = threading.Lock()
        self._bells: dict[threading.Event, frozenset[str]] = {}
        """Waiting calls and their processors."""
        self._kept: dict[int, int] = {}
        """Number of tasks that a job keeps."""
        self._closed = False
        self.reports: dict[tuple[str, int], tuple[TaskReport, float]] = {}
        """The last epoch of each processor and task, and when it was reported."""
        publisher.on_claim = self._claimed
        publisher.on_behind = self._left_behind
        self._busy: dict[str, tuple[float, float]] = {}
        """How long a task has worked on a processor, and when it reported that."""
        self.apart: dict[str, str] = {}
        """Processors that can't share a task, with the reason, until the driver takes them."""

    # --- what a task receives ---

    def next(self, ask: Next) -> Granted:
        """Grants for those processors that are at the same position; waits for records."""
        if ask.report is not None:
            with self._lock:
                self.reports |= {(name, ask.task): (ask.report, time.monotonic()) for name in ask.processors}
        deadline = time.monotonic() + ask.wait_ms / 1000
        bell = threading.Event()
        runs = [self._publisher.processor(name) for name in ask.processors]
        with ExitStack() as watching:
            watching.callback(self._bells.pop, bell)
            self._bells[bell] = frozenset(ask.processors)
            # A chain reads the retry topics of all members. A member that reads `latest` has no registered reader.
            for name in {name for running in runs for name in (*running.sources, *running.readers)}:
                watching.enter_context(self._topics[name].ringing(bell))
            while True:
                bell.clear()  # before the check, so that records that arrive during it end the wait
                with self._lock:
                    found, wait_s = self._look(ask)
                left = deadline - time.monotonic()
                if found is not None or left <= 0 or self._closed:
                    break
                bell.wait(min(left, wait_s))
        if found is None:
            for running in runs:
                running.vain += 1
            return Granted()
        return found

    def _look(self, ask: Next) -> tuple[Granted | None, float]:
        """The answer, if there is one now; otherwise none, and the maximum time to wait without a notification."""
        apart: dict[str, str] = {}
        standing: list[tuple[ProcessorRun, Job]] = []
        for name, generation in ask.processors.items():
            running = self._publisher.processor(name)
            try:
                job = self._job(running, generation)
            except Fenced as error:
                if len(ask.processors) == 1 or self._is_of(name, ask.job):  # the same job: it claims again
                    raise
                apart[name] = error.message
                continue
            if ask.task >= self._kept.get(job.number, ask.task + 1):
                return Granted(stop=True), 0.0
            if running.stopped and len(ask.processors) > 1:
                apart[name] = running.stopped
            else:
                standing.append((running, job))
        standing, limit = self._in_step(standing, apart)
        self.apart |= apart
        granted = Granted(apart=apart)
        for running, job in standing:
            if (grant := self._grant(running, job, ask, limit)) is not None:
                granted.grants[running.name] = grant
                granted.rows = max(granted.rows, rows_between(grant.start, grant.end))
                granted.lag = max(granted.lag, self._sources.lag(running, grant.start))
        if granted.grants or apart:
            return granted, 0.0
        return None, min((self._wait_s(running, job, ask) for running, job in standing), default=1.0)

    def _job(self, running: ProcessorRun, generation: int) -> Job:
        row = self._publisher.check_generation(running.name, generation)
        for name, number in running.members.items():
            self._publisher.check_generation(name, number)  # it was taken out of its chain
        job = running.job
        if job is None or job.generation != row.generation:
            raise Fenced(f'processor "{running.name}" is not read by a standing job', hint="claim it anew")
        return job

    def _in_step(
        self, standing: list[tuple[ProcessorRun, Job]], apart: dict[str, str]
    ) -> tuple[list[tuple[ProcessorRun, Job]], int | None]:
        """The processors that are furthest behind, and the offset of the others; those too far behind are set apart."""
        if len(standing) < 2:
            return standing, None
        topic = self._topics[standing[0][0].sources[0]]
        stands = {running.name: _begin(topic, job.tip[topic.name]) for running, job in standing}
        newest = max(stands.values())
        for name, at in stands.items():
            if newest - at > NEAR_ROWS:
                apart[name] = f"it was {newest - at:,} records of {topic.name} behind the others"
        near = [pair for pair in standing if pair[0].name not in apart]
        first = min(stands[running.name] for running, _ in near)
        later = [stands[running.name] for running, _ in near if stands[running.name] > first]
        return [pair for pair in near if stands[pair[0].name] == first], min(later, default=None)

    def _grant(self, running: ProcessorRun, job: Job, ask: Next, limit: int | None) -> Grant | None:
        if running.stopped or job.empties or (running.skip is not None and job.given):
            return None
        start, again, lane = job.tip, bool(job.again), ask.task
        row = self._ledger.row(running.name)
        assert row is not None
        if again:
            end, lane = job.again.popleft()
        elif running.lanes and any(grant.lane == lane for grant in job.given):
            return None  # a lane only remembers its last epoch: that of another task must be published first
        else:
            self._sources.check_places(running, start)
            busy = job.in_progress() if running.lanes else frozenset()
            end = self._sources.end_of(running, start, self._rows(running, ask), ask.max_bytes, busy)
            source = running.sources[0]
            if limit is not None and end[source].off > limit:
                end[source] = At(end[source].inc, limit)
            if end == start or not self._is_due(running, job, ask, start):
                return None
            if running.tables:
                end |= self._sources.tables.hold(running)
            if running.tracked:
                self._ledger.granted(running.name, job.generation, end, lane)
        settled = row.ends if row.epoch >= 0 else row.start
        grant = Grant(job.epoch, start, end, settled, again, self._sources.stay(running), lane=lane)
        if running.skip is not None:
            grant.narrowed, grant.skip = True, running.skip.buries
        job.tip, job.waits_since, job.epoch = places(end), None, job.epoch + 1
        job.given.append(grant)
        job.granted_at.append(time.monotonic())
        return grant

    def _rows(self, running: ProcessorRun, ask: Next) -> int:
        return ask.max_rows if running.skip is None else min(ask.max_rows, running.skip.rows)

    def _is_due(self, running: ProcessorRun, job: Job, ask: Next, start: Ends) -> bool:
        """Whether there are enough records, or they have waited long enough."""
        if not ask.min_rows or self._sources.lag(running, start) >= ask.min_rows:
            return True
        now = time.monotonic()
        if job.waits_since is None:
            job.waits_since = now
        return (now - job.waits_since) * 1000 >= ask.flush_ms

    def _wait_s(self, running: ProcessorRun, job: Job, ask: Next) -> float:
        if running.bounded is not None:
            return BOUNDED_LOOK_S  # its range may grow with the clock
        if job.waits_since is not None:
            return max(ask.flush_ms / 1000 - (time.monotonic() - job.waits_since), 0.001)
        return 60.0

    # --- what a task sends ---

    def publish(self, publish: Publish, patience_ms: int = 0) -> Published:
        """Publishes an epoch; a granted one after those granted before it."""
        running = self._publisher.processor(publish.processor)
        if running.job is None or running.job.generation != publish.generation:
            return self._publisher.publish(publish)
        self._await_turn(running, publish)
        published = self._publisher.publish(publish, patience_ms)
        narrowed = running.skip is not None
        with self._lock:
            job = running.job
            if job is not None and job.generation == publish.generation:
                while job.given and job.given[0].epoch <= publish.epoch:
                    grant = job.given.popleft()
                    job.granted_at.popleft()
                    self._sources.tables.release(running, grant.end)
                    if running.skip is not None and running.skip.passed(grant, buried=publish.skip):
                        running.skip = None
        for name, at in places(publish.ends).items():
            if at.inc == self._topics[name].inc:
                self._sources.moved(running, name, at, keep_epochs=False)
        running.published += 1
        with running.turn:
            running.turn.notify_all()
        if narrowed:
            self.ring(running.name)
        return published

    def publish_all(self, asked: PublishAll, stages: Stages) -> list[Outcome]:
        """Publishes the results of one task for several processors, one after the other."""
        found = []
        try:
            for inline in asked.stages:
                self._publisher.check_generation(inline.head.processor, inline.head.generation)
                stages.put(inline.head, pa.ipc.open_stream(inline.data) if inline.data else ())
            for publish in asked.publishes:
                try:
                    self.publish(publish, asked.patience_ms)
                    found.append(Outcome())
                except GaussError as error:
                    found.append(Outcome(error.to_dict()))
        finally:  # stages that were published or rejected are not requested again under these names
            stages.done(inline.head.stage for inline in asked.stages)
        return found

    def _await_turn(self, running: ProcessorRun, publish: Publish) -> None:
        with running.turn:
            while not running.cancel.is_set():
                row = self._publisher.check_generation(publish.processor, publish.generation)
                if publish.epoch <= row.epoch + 1:
                    return
                running.turn.wait(1.0)

    def note_failure(self, failure: ProcessorFailure) -> dict[str, bool]:
        """Records the failure of a processor."""
        self._publisher.check_generation(failure.processor, failure.generation)
        self._publisher.processor(failure.processor).failure = failure.why
        if failure.apart:
            with self._lock:
                self.apart[failure.processor] = failure.why
        return {"noted": True}

    def noted_busy(self, busy: Busy) -> dict[str, bool]:
        """Records which processors a task has been busy with for some time."""
        self._publisher.check_generation(busy.processor, busy.generation)
        self._busy[busy.processor] = busy.seconds, time.monotonic()
        return {"noted": True}

    def emptied(self, emptied: Emptied) -> dict[str, bool]:
        """Allows inserts into a rebuilt table."""
        running = self._publisher.processor(emptied.processor)
        with self._lock:
            self._job(running, emptied.generation).empties = False
        self.ring(running.name)
        return {"noted": True}

    # --- requests of the driver ---

    def new_job(self) -> int:
        """A number above those of all earlier jobs, including those of earlier runs."""
        return self._ledger.next_number()

    def end_job(self, number: int, keep: int = 0) -> None:
        """Lets the tasks of a job end after their current epoch, except for the first `keep`."""
        with self._lock:
            self._kept[number] = keep
            for key in [key for key in self.reports if key[1] >= keep and self._is_of(key[0], number)]:
                del self.reports[key]
        self.ring()

    def _is_of(self, name: str, number: int) -> bool:
        job = self._publisher.running[name].job
        return job is not None and job.number == number

    def skip(self, name: str, why: str) -> None:
        """Skips the records at which the last job of a processor, or of its chain, failed; raises if no epoch was in
        progress."""
        running = self._publisher.processor(name)
        running = self._publisher.processor(running.chain[0]) if running.chain else running
        with self._lock:
            given = list(running.job.given) if running.job is not None else []
            running.skip = Skip.of(running, given, running.failure or why)

    def news(self) -> dict[str, StandingProgress]:
        """The status of the processors of standing jobs."""
        now, found = time.monotonic(), {}
        for name, running in self._publisher.running.items():
            if (job := running.job) is None:
                continue
            with self._lock:
                oldest = job.granted_at[0] if job.granted_at else now
                behind = self._sources.lag(running, job.tip)
            busy_s, told = self._busy.get(name, (0.0, 0.0))
            fresh = busy_s if now - told < BUSY_FRESH_S else 0.0
            rows = max((told[0].rows for (each, _), told in self.reports.items() if each == name), default=0)
            under_way_s = 0.0 if running.waits_room else now - oldest
            found[name] = StandingProgress(job.number, running.published, behind, rows, under_way_s, fresh)
        return found

    def tasks_of(self, name: str) -> list[dict[str, Any]]:
        """The last epoch of each task that works for a processor."""
        now = time.monotonic()
        with self._lock:
            found = [(task, *told) for (each, task), told in self.reports.items() if each == name]
        return [
            {"task": task, "told_s": round(now - told, 1), **msgspec.to_builtins(report)}
            for task, report, told in sorted(found, key=lambda each: each[0])
        ]

    def taken_apart(self) -> dict[str, str]:
        """Processors that need a task of their own, with the reason; returned once."""
        with self._lock:
            found, self.apart = self.apart, {}
        return found

    def _left_behind(self, names: list[str]) -> None:
        with self._lock:
            self.apart |= dict.fromkeys(names, "it had unread records of its topic")

    def _claimed(self, running: ProcessorRun) -> None:
        self._sources.tables.release_all(running)
        self.ring(running.name)

    def ring(self, processor: str = "") -> None:
        """Wakes the waiting calls of a processor, or all, after a change that no topic announces."""
        for bell, processors in list(self._bells.items()):
            if not processor or processor in processors:
                bell.set()

    def close(self) -> None:
        self._closed = True
        self.ring()


def _begin(topic: Topic, at: At) -> int:
    return at.off if at.inc == topic.inc else topic.floor()
