"""Publishing: an epoch becomes visible in all its targets by one journal entry, or in none. Zombies are refused."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import msgspec

from gauss.contracts.chunk import Chunk
from gauss.model.errors import Fenced, ProtocolError, Unavailable
from gauss.stream.engine.chained import Chained, decoded_letters, offsets_filled
from gauss.stream.engine.claims import Claims
from gauss.stream.engine.dead import DEAD_TOPIC, LATE, RETRY_PREFIX, SKIPPED, Letter, letter_of, letters_chunk
from gauss.stream.engine.entries import EpochPublished, ProcessorRow
from gauss.stream.engine.epochs import (
    input_ts,
    published_before,
    rows_between,
    skipped_letters,
    staged_chunks,
)
from gauss.stream.engine.ledger import Ledger
from gauss.stream.engine.passing import passed_chunks
from gauss.stream.engine.running import Running
from gauss.stream.engine.stages import Staged, Stages
from gauss.stream.engine.times import seen_by
from gauss.stream.engine.topic import Topic
from gauss.stream.protocol import At, Ends, Member, Publish, Published, places

log = logging.getLogger(__name__)


def _inlets(running: Running, ends: Ends) -> list[str]:
    return [name for name in running.sources if name.startswith(RETRY_PREFIX) and name in ends]


class Publisher(Claims):
    """Publishes for whoever holds the claim."""

    def __init__(
        self,
        topics: Mapping[str, Topic],
        ledger: Ledger,
        stages: Stages,
        *,
        synced: frozenset[str] = frozenset(),
        dead_full: Callable[[str], str] = lambda _: "",
        on_stop: Callable[[str, str], None] = lambda _processor, _reason: None,
    ) -> None:
        """`synced` are the topics whose commits must be on disk at once; `dead_full` says why a
        processor may add no more dead letters; `on_stop` is told who was stopped and why."""
        super().__init__(topics, ledger, stages)
        self._synced = synced
        self._dead_full = dead_full
        self._on_stop = on_stop

    def publish(self, publish: Publish, patience_ms: int = 0) -> Published:
        """Publishes what an epoch's tasks staged. The same epoch with the same ends again changes nothing. With
        `patience_ms` it waits no longer for room, and raises Unavailable."""
        running = self.processor(publish.processor)
        cancel = running.cancel
        with self._locked(publish.processor, *(member.processor for member in publish.members)):
            row = self.check_generation(publish.processor, publish.generation)
            for member in publish.members:
                self.check_generation(member.processor, member.generation)
            if publish.checkpoint and publish.checkpoint != row.checkpoint:
                raise ProtocolError(
                    f'processor "{publish.processor}" publishes under checkpoint {publish.checkpoint}, '
                    f"claimed was {row.checkpoint}"
                )
            if published_before(row, publish.processor, publish.epoch, publish.ends):
                return Published(True, {name: self._topic(name).version() for name in publish.targets})
            begin = row.start_of(publish.epoch)
            assert begin is not None
            chain = self._chain(publish.members)
            staged = {
                name: self._stages.name(publish.processor, publish.generation, name, stages)
                for name, stages in publish.targets.items()
            }
            dead = self._stages.dead(publish.processor, begin, publish.ends)
            times = self._stages.times.of(publish.processor, begin, publish.ends)
            ts_ms = input_ts(self._topics, publish.ends)
            unread = [chunk for stage in staged.pop(DEAD_TOPIC, []) for chunk in staged_chunks(stage, ts_ms)]
            by_stage = {
                name: [(stage.head.stage, self._chunks(stage, ts_ms)) for stage in found]
                for name, found in staged.items()
            }
            said = [*(fields for stage in dead for fields in stage.letters), *decoded_letters(unread)]
            offsets_filled(by_stage, said, self._topics)
            letters = [chain.letter(publish.processor, fields) for fields in said]
            if publish.skip:
                letters = skipped_letters(self._topics, publish.processor, begin, publish.ends, publish.why)
            chunks = {name: [chunk for _, found in stages for chunk in found] for name, stages in by_stage.items()}
            facts = (running, row, publish.epoch, publish.ends, chunks, letters, cancel, seen_by(times), chain)
            ends = self._commit(*facts, patience_ms)
            running.late += sum(time.late for time in times)
            self._stages.times.done(times)
            self._stages.done(name for names in publish.targets.values() for name in names)
            self._stages.done_dead(dead)
            return Published(False, {name: ends[name].off for name in publish.targets})

    def _chunks(self, stage: Staged, ts_ms: int) -> list[Chunk]:
        passed = stage.head.passed
        return staged_chunks(stage, ts_ms) if passed is None else passed_chunks(self._topic(passed.topic), stage)

    def _chain(self, members: list[Member]) -> Chained:
        """The members of a publish, each at the end of the topic that it reads."""
        chain = Chained()
        for member in members:
            running, row = self.processor(member.processor), self._ledger.row(member.processor)
            source = running.sources[0]
            chain.add(member, running, self._topics[source], self._start(running, row, source))
        return chain

    def publish_chunks(
        self, processor: str, generation: int, ends: Ends, chunks: dict[str, list[Chunk]], letters: list[Letter]
    ) -> None:
        """The next epoch of a transform inside the engine."""
        running = self.processor(processor)
        cancel = running.cancel
        with running.lock:
            row = self.check_generation(processor, generation)
            self._commit(running, row, row.epoch + 1, ends, chunks, letters, cancel)

    def _commit(  # noqa: PLR0917 (one call's worth of facts, all of them needed)
        self,
        running: Running,
        row: ProcessorRow,
        epoch: int,
        ends: Ends,
        chunks: dict[str, list[Chunk]],
        letters: list[Letter],
        cancel: threading.Event,
        seen: Mapping[str, int] = {},
        chain: Chained | None = None,
        patience_ms: int = 0,
    ) -> Ends:
        chain = chain or Chained()
        letters = [self._returned(letter) for letter in letters]
        ready: dict[str, list[Chunk]] = {}
        for name, parts in chunks.items():
            ready[name] = []
            for chunk in parts:
                fit, unfit = self._topic(name).fit(chunk)
                chain.check_fit(name, len(unfit))
                letters += [letter_of(letter._replace(processor=chain.writer(name, running.name))) for letter in unfit]
                if fit is not None and fit.count:
                    ready[name].append(fit)
        if letters:
            # Named only when it gets something: its lock would make every publish wait for every other.
            fit, _ = self._topics[DEAD_TOPIC].fit(letters_chunk(letters, int(time.time() * 1000)))
            ready[DEAD_TOPIC] = [fit] if fit is not None else []
        for name, parts in ready.items():
            # Outside the locks: whoever makes room needs them.
            if parts and not self._has_room(running, self._topics[name], cancel, patience_ms):
                raise self._cancelled(running, name)
        begin = row.start_of(epoch) or {}
        ended = self._append(running.name, row, epoch, ends, ready, seen, chain)
        chain.pass_on(ended)
        taken = chain.taken(begin, ends, ended)
        taken[running.name] = self._taken_in(running, begin, chain.of_head(ends))
        for name, parts in ready.items():
            self.running[chain.writer(name, running.name)].bytes += sum(chunk.nbytes for chunk in parts)
        for name, count in taken.items():
            own = [letter for letter in letters if not chain.members or letter.processor == name]
            again = sum(rows_between(begin, {inlet: ends[inlet]}) for inlet in _inlets(self.running[name], ends))
            self._count(self.running[name], count, again, [letter for letter in own if letter.attempts == 1])
        return ended

    def _has_room(self, running: Running, topic: Topic, cancel: threading.Event, patience_ms: int) -> bool:
        """False: it was cancelled meanwhile. Raises when it takes too long."""
        running.waits_room = True
        try:
            if topic.wait_room(cancel, patience_ms / 1000 if patience_ms else None):
                return True
        finally:
            running.waits_room = False
        if patience_ms and not cancel.is_set() and not self._closed:
            raise Unavailable(f'topic "{topic.name}" is full')
        return False

    def _taken_in(self, running: Running, begin: Ends, ends: Ends) -> int:
        """How many records of a range there were to read: not those that died with an engine or were overwritten."""
        there = {name: at for name, at in places(ends).items() if self._topics[name].inc == at.inc}
        rows = rows_between(begin, there)
        for name, inc, start, stop in running.lost:
            if name in there and there[name].inc == inc and start >= 0:
                first = begin[name].off if name in begin and begin[name].inc == inc else 0
                rows -= max(min(stop, there[name].off) - max(start, first), 0)
        return rows

    def _returned(self, letter: Letter) -> Letter:
        """A letter of a replayed record is the letter that the record was, once more."""
        origin = self._ledger.origin(letter.topic, letter.offset) if letter.topic.startswith(RETRY_PREFIX) else None
        if origin is None:
            return letter
        where = {"topic": origin.topic, "inc": origin.inc, "offset": origin.offset}
        return msgspec.structs.replace(letter, **where, attempts=origin.attempts + 1)

    def _count(self, running: Running, records: int, again: int, letters: list[Letter]) -> None:
        """`records` were taken in, `again` of them by a replay; these and their letters were counted before."""
        running.records += records - again
        running.dead += len(letters)
        failed = sum(letter.reason not in (SKIPPED, LATE) for letter in letters)
        reason = running.ratio.add(records - again, failed, time.monotonic())
        if reason := reason or (self._dead_full(running.name) if letters else ""):
            self.stop(running, reason)

    def _append(  # noqa: PLR0917 (as above)
        self,
        processor: str,
        row: ProcessorRow,
        epoch: int,
        ends: Ends,
        ready: dict[str, list[Chunk]],
        seen: Mapping[str, int],
        chain: Chained,
    ) -> Ends:
        """Appends, commits and reveals; the journal entry is the commit point."""
        names = sorted(ready)
        topics = [self._topic(name) for name in names]
        with ExitStack() as locks:
            for topic in topics:
                locks.enter_context(topic.lock)
            number = self._ledger.next_number()
            try:
                for topic in topics:
                    chain.check(topic)
                    for chunk in ready[topic.name]:
                        topic.stage_append(chunk, number)
                ended = {topic.name: At(topic.inc, topic.staged_end()) for topic in topics}
                moved = chain.moved(ended, ends)
                entry = EpochPublished(number, processor, row.checkpoint, epoch, ends, ended, dict(seen), moved)
                self._ledger.commit(entry, sync=not self._synced.isdisjoint(names))
            except BaseException:
                for topic in topics:
                    topic.rollback()
                raise
            for topic in topics:
                topic.reveal()
                topic.trim()
        for topic in topics:
            topic.announce()
        return ended

    def _cancelled(self, running: Running, topic: str) -> Exception:
        if self._closed:
            return Unavailable(f'the engine stops while processor "{running.name}" waits for room in topic "{topic}"')
        return Fenced(f'processor "{running.name}" was claimed anew while it waited for room in topic "{topic}"')

    def stop(self, running: Running, reason: str) -> None:
        """Ends a processor's reading, and that of its chain, until somebody retries it."""
        reason += f" (gauss dlq show --processor {running.name}, then: gauss processors retry {running.name})"
        for name in running.chain or (running.name,):
            self.running[name].stopped = reason if name == running.name else f"{running.name}: {reason}"
            log.error("processor %s stopped: %s", name, self.running[name].stopped)
            self._on_stop(name, self.running[name].stopped)

    def resume(self, name: str) -> None:
        """A retry: what stopped the processor, or its chain, no longer counts."""
        for each in self.processor(name).chain or (name,):
            running = self.running[each]
            running.stopped = ""
            running.ratio = running.ratio.fresh()
