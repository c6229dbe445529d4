"""Runs a transform inside the engine: cursor → transform → publish, with the epochs and ledger of a Spark query."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

import msgspec

from gauss.clients.engine.driver_messages import QueryStatus
from gauss.clients.engine.positions import At, Ends
from gauss.clients.engine.task_messages import Claim
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Mode, OffsetRange, Output, Placed, Program, ReaderCursor, Seq, Step
from gauss.contracts.edge import EngineTransform
from gauss.contracts.letter import Letter
from gauss.model.errors import Fenced, GaussError, Unavailable
from gauss.stream.engine.delivery.batch_planning import Sources
from gauss.stream.engine.delivery.dead_letters import SKIPPED, skipped
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.delivery.publish import Publisher
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Topic

STEP = Step(limit=65_536, max_bytes=4 << 20, fill=False)
WAIT_S = 0.25
MAX_FAILURES = 5

log = logging.getLogger(__name__)


class Pump(threading.Thread):
    """One transform. After five failures at the same position it waits for a retry."""

    def __init__(
        self,
        running: ProcessorRun,
        target: str,
        transform: EngineTransform,
        *,
        topics: Mapping[str, Topic],
        ledger: Ledger,
        publisher: Publisher,
        sources: Sources,
    ) -> None:
        super().__init__(name=f"pump-{running.name}", daemon=True)
        self._running = running
        self._target = target
        self._transform = transform
        self._topics = topics
        self._ledger = ledger
        self._publisher = publisher
        self._sources = sources
        self._stopping = threading.Event()
        self._retried = threading.Event()
        self._skip = False
        self._failure = ""
        self._cursors: dict[str, tuple[int, ReaderCursor]] = {}
        self.status = QueryStatus(running.name, "starting")

    def run(self) -> None:
        pause, lasting = 0.1, 0
        while not self._stopping.is_set():
            before = self._running.records
            try:
                self._work()
            except Fenced:
                continue  # a seek or a new claim: continue at the ledger's position
            except Exception as error:
                if isinstance(error, Unavailable) and self._stopping.is_set():
                    break
                if self._running.records > before:
                    self.status.failures, lasting, pause = 0, 0, 0.1
                self._failed(error)
                # Some causes, such as a full disk, end by themselves.
                lasting += not (isinstance(error, GaussError) and error.retryable)
                if lasting >= MAX_FAILURES:
                    self._rest()
                    lasting, pause = 0, 0.1
                else:
                    self._stopping.wait(pause)
                    pause = min(pause * 2, 5.0)
        self.status.state = "stopped"

    def _failed(self, error: Exception) -> None:
        self.status.failures += 1
        self.status.state = "waiting"
        self.status.detail = self._failure = _said(error)
        log.warning("transform %s: %s", self.name, self.status.detail, exc_info=not isinstance(error, GaussError))

    def _rest(self) -> None:
        """Waits for a retry or skip after a final failure."""
        self._retried.clear()  # before the state is visible, so that no retry is missed
        self.status.state = "failed"
        self.status.detail += (
            f" (after fixing the cause: gauss processors retry {self.name}; to send the failing records to the dead"
            f" letters: gauss processors skip {self.name})"
        )
        log.error("transform %s failed %d times at the same position: %s", self.name, MAX_FAILURES, self.status.detail)
        while not self._stopping.is_set() and not self._retried.wait(WAIT_S):
            pass
        self.status.failures = 0

    def retry(self, *, skip: bool = False) -> None:
        """Starts again after a failure; `skip` sends the records it failed at to the dead letters."""
        self._skip = skip
        self._retried.set()

    def stop(self) -> None:
        self._stopping.set()
        self._running.cancel.set()

    def _work(self) -> None:
        """Claims the processor, then publishes epoch after epoch until told to stop."""
        name = self._running.name
        sources = list(self._running.sources)
        row = self._ledger.row(name)
        same = row is not None and set(row.start) == set(sources)
        checkpoint = row.checkpoint if same and row is not None else f"engine-{time.time_ns()}"
        claimed = self._publisher.claim(Claim(name, checkpoint, sources, [self._target]))
        row = self._ledger.row(name)
        assert row is not None
        known = row.ends if row.epoch >= 0 else claimed.start
        ends = self._current({source: known[source] for source in sources})
        self._close_cursors()
        self.status.state = "running"
        if not self.status.failures:
            self.status.detail = ""
        try:
            while not self._stopping.is_set():
                if self._running.stopped:
                    self.status.state, self.status.detail = "stopped", self._running.stopped
                    self._stopping.wait(WAIT_S)
                    continue
                self.status.state = "running"
                self._publisher.check_generation(name, claimed.generation)
                ends = self._step(claimed.generation, ends)
        finally:
            self._close_cursors()

    def _current(self, ends: Ends) -> Ends:
        """The same positions; one in a lost incarnation becomes the oldest record of the current one."""
        for name, at in ends.items():
            topic = self._topics[name]
            if at.inc != topic.inc:
                self._sources.lost_on_restart(self._running, topic, at)
                ends[name] = At(topic.inc, topic.floor())
        return ends

    def _step(self, generation: int, ends: Ends) -> Ends:
        """Runs one epoch over new records of the retry topic, else of the topic. Waits briefly if there are none."""
        for name in reversed(self._running.sources):
            topic, at = self._topics[name], ends[name]
            placed, stop = self._take(topic, at)
            if not placed:
                continue
            began = time.monotonic()
            chunks, dead = self._apply(placed)
            letters = [
                msgspec.structs.replace(each, processor=self._running.name, topic=name, inc=topic.inc) for each in dead
            ]
            ended = {**ends, name: At(topic.inc, stop)}
            self._publisher.publish_chunks(self._running.name, generation, ended, {self._target: chunks}, letters)
            if name in self._cursors:
                self._cursors[name][1].emitted(sum(chunk.nbytes for chunk in chunks))
            self._sources.moved(self._running, name, ended[name])
            self._note_batch(placed, time.monotonic() - began)
            return ended
        source = self._running.sources[0]
        if self._running.bounded is not None:
            self._sources.moved(self._running, source, ends[source])
            self._stopping.wait(WAIT_S)  # new records may be outside its range
        else:
            self._topics[source].wait(ends[source].off, WAIT_S)
        self.status.failures, self.status.detail = 0, ""  # nothing is left at which it could fail
        return ends

    def _take(self, topic: Topic, at: At) -> tuple[list[Placed], int]:
        """The records that may be read from a position on, and their end."""
        if self._running.read == "latest":
            return self._newest(topic, at)
        if (bounded := self._running.range_in(topic.name)) is not None:
            return self._within(topic, at, bounded.end(topic))
        return self._next(topic, at)

    def _within(self, topic: Topic, at: At, stop: int) -> tuple[list[Placed], int]:
        """The records of a range, some of which may no longer exist."""
        start = max(at.off, topic.floor())
        if start >= stop:
            return [], at.off
        if start > at.off and topic.name in self._running.readers:
            self._running.readers[topic.name].missed(start - at.off)
        cursor = topic.open(Program(OffsetRange(start, stop), output=Output.CHUNKS))
        try:
            return _taken(cursor), cursor.position
        finally:
            cursor.close()

    def _next(self, topic: Topic, at: At) -> tuple[list[Placed], int]:
        position, cursor = self._cursors.get(topic.name, (-1, None))
        if cursor is None or position != at.off:
            cursor = topic.open(Program(Seq(at.off), Mode.LIVE, Output.CHUNKS))
        missed = cursor.missed
        placed = _taken(cursor)
        if cursor.missed > missed and topic.name in self._running.readers:
            self._running.readers[topic.name].missed(cursor.missed - missed)
        self._cursors[topic.name] = cursor.position, cursor
        return placed, cursor.position

    def _newest(self, topic: Topic, at: At) -> tuple[list[Placed], int]:
        """The newest record, unless it was already read."""
        end = topic.version()
        if end <= max(at.off, topic.floor()):
            return [], end
        cursor = topic.open(Program(OffsetRange(end - 1, end), output=Output.CHUNKS))
        try:
            return _taken(cursor), end
        finally:
            cursor.close()

    def _apply(self, placed: list[Placed]) -> tuple[list[Chunk], list[Letter]]:
        if self._skip:
            self._skip = False
            chunks, letters = self._without_bad([(offset, chunk) for offset, chunk in placed])
            if any(letter.reason == SKIPPED for letter in letters):
                return chunks, letters
            # Each record passes the transform alone, so the epoch fails elsewhere.
            return [], [letter for offset, chunk in placed for letter in skipped(chunk, offset, self._failure)]
        changed = [self._transform.apply(chunk, offset) for offset, chunk in placed]
        chunks = [made.chunk for made in changed if made.chunk is not None and made.chunk.count]
        return chunks, [letter for made in changed for letter in made.dead]

    def _without_bad(self, placed: list[tuple[int, Chunk]]) -> tuple[list[Chunk], list[Letter]]:
        """The transform's results for records at which it does not fail, and letters for the others, found by
        bisection."""
        chunks: list[Chunk] = []
        letters: list[Letter] = []
        for offset, chunk in placed:
            try:
                made = self._transform.apply(chunk, offset)
            except Exception as error:
                if chunk.count == 1:
                    letters += skipped(chunk, offset, _said(error))
                    continue
                half = chunk.count // 2
                halves = [(offset, chunk.slice(0, half)), (offset + half, chunk.slice(half, chunk.count - half))]
                more, dead = self._without_bad(halves)
                chunks, letters = chunks + more, letters + dead
                continue
            chunks += [made.chunk] if made.chunk is not None and made.chunk.count else []
            letters += made.dead
        return chunks, letters

    def _note_batch(self, placed: list[Placed], seconds: float) -> None:
        self.status.epoch += 1
        self.status.batch_rows = sum(entry.chunk.count for entry in placed)
        self.status.batch_ms = round(seconds * 1000)
        self.status.failures, self.status.detail = 0, ""

    def _close_cursors(self) -> None:
        for _, cursor in self._cursors.values():
            cursor.close()
        self._cursors = {}


def _said(error: Exception) -> str:
    return error.message if isinstance(error, GaussError) else f"{type(error).__name__}: {error}"


def _taken(cursor: ReaderCursor) -> list[Placed]:
    if cursor.next(STEP) is not Code.OK:
        return []
    _, placed = cursor.read()
    assert isinstance(placed, list)
    return placed
