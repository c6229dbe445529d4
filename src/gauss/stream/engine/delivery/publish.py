"""Publishing: one journal entry makes an epoch visible in all its targets, or in none. Older generations are fenced."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from gauss.clients.engine.positions import Ends, places
from gauss.clients.engine.task_messages import Member, Publish, Published
from gauss.contracts.chunk import Chunk
from gauss.contracts.letter import Letter
from gauss.model.errors import Fenced, ProtocolError, Unavailable
from gauss.model.names import DEAD_TOPIC, is_retry_topic
from gauss.stream.engine.delivery.chain_epochs import Chained, decoded_letters, fill_offsets
from gauss.stream.engine.delivery.claims import Claims
from gauss.stream.engine.delivery.dead_letters import LATE, SKIPPED, letters_chunk
from gauss.stream.engine.delivery.epochs import (
    input_ts,
    published_before,
    rows_between,
    seen_by,
    skipped_letters,
    staged_chunks,
)
from gauss.stream.engine.delivery.passed_records import passed_chunks
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.delivery.stages import StagedRecords, Stages
from gauss.stream.engine.delivery.transaction import Transaction
from gauss.stream.engine.journal.entries import EpochPublished, ProcessorRow
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Topic

log = logging.getLogger(__name__)


def _retry_topics(running: ProcessorRun, ends: Ends) -> list[str]:
    return [name for name in running.sources if is_retry_topic(name) and name in ends]


@dataclass
class EpochOutput:
    """The results of an epoch, ready to be published."""

    running: ProcessorRun
    row: ProcessorRow
    epoch: int
    ends: Ends
    """The end of the epoch in each source."""
    chunks: dict[str, list[Chunk]]
    letters: list[Letter]
    seen: Mapping[str, int] = field(default_factory=dict)
    """The largest event time of its records, by the keys of `ends`."""
    chain: Chained = field(default_factory=Chained)
    written: Mapping[str, int] = field(default_factory=dict)
    """Bytes that its tasks have written to topics in outside systems, by topic."""

    def entry(self, number: int, ended: Ends) -> EpochPublished:
        """The journal entry of the commit."""
        moved = self.chain.moved(ended, self.ends)
        checkpoint, seen = self.row.checkpoint, dict(self.seen)
        return EpochPublished(number, self.running.name, checkpoint, self.epoch, self.ends, ended, seen, moved)


class Publisher(Claims):
    """Publishes for the holder of the claim."""

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
        """`synced`: topics whose commits must be on disk at once. `dead_full` returns the reason why a processor may
        add no dead letters. `on_stop` is called with a stopped processor and the reason."""
        super().__init__(topics, ledger, stages)
        self._synced = synced
        self._dead_full = dead_full
        self._on_stop = on_stop

    def publish(self, publish: Publish, patience_ms: int = 0) -> Published:
        """Publishes what an epoch's tasks staged. Idempotent for the same epoch and ends. With `patience_ms` it waits
        only so long for space, then raises Unavailable."""
        running = self.processor(publish.processor)
        with self._locked(publish.processor, *(member.processor for member in publish.members)):
            row = self.check_generation(publish.processor, publish.generation)
            for member in publish.members:
                self.check_generation(member.processor, member.generation)
            if publish.checkpoint and publish.checkpoint != row.checkpoint:
                raise ProtocolError(
                    f'processor "{publish.processor}" publishes with checkpoint {publish.checkpoint}, '
                    f"but claimed {row.checkpoint}"
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
            dead = self._stages.dead.of(publish.processor, begin, publish.ends)
            times = self._stages.times.of(publish.processor, begin, publish.ends)
            ts_ms = input_ts(self._topics, publish.ends)
            unread = [chunk for stage in staged.pop(DEAD_TOPIC, []) for chunk in staged_chunks(stage, ts_ms)]
            by_stage = {
                name: [(stage.head.stage, self._chunks(stage, ts_ms)) for stage in found]
                for name, found in staged.items()
            }
            staged_letters = [*(letter for stage in dead for letter in stage.letters), *decoded_letters(unread)]
            fill_offsets(by_stage, staged_letters, self._topics)
            letters = [chain.letter(publish.processor, letter) for letter in staged_letters]
            if publish.skip:
                letters = skipped_letters(self._topics, publish.processor, begin, publish.ends, publish.why)
            chunks = {name: [chunk for _, found in stages for chunk in found] for name, stages in by_stage.items()}
            output = EpochOutput(
                running, row, publish.epoch, publish.ends, chunks, letters, seen_by(times), chain, publish.written
            )
            ends = self._commit(output, patience_ms)
            running.late += sum(time.late for time in times)
            self._stages.times.done(times)
            self._stages.done(name for names in publish.targets.values() for name in names)
            self._stages.dead.done(dead)
            return Published(False, {name: ends[name].off for name in publish.targets})

    def _chunks(self, stage: StagedRecords, ts_ms: int) -> list[Chunk]:
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
        with running.lock:
            row = self.check_generation(processor, generation)
            self._commit(EpochOutput(running, row, row.epoch + 1, ends, chunks, letters))

    def _commit(self, output: EpochOutput, patience_ms: int = 0) -> Ends:
        running, chain, ends = output.running, output.chain, output.ends
        letters = [self._returned(letter) for letter in output.letters]
        transaction = Transaction(self._topics, self._ledger, self._synced)
        for name, chunks in output.chunks.items():
            unfit = transaction.add(self._topic(name).name, chunks)
            chain.check_fit(name, len(unfit))
            writer = chain.writer(name, running.name)
            letters += [msgspec.structs.replace(letter, processor=writer) for letter in unfit]
        if letters:
            # Locked only if it gets letters: its lock would serialise all publishes.
            transaction.add(DEAD_TOPIC, [letters_chunk(letters, int(time.time() * 1000))])
        self._wait_room(running, transaction, patience_ms)
        begin = output.row.start_of(output.epoch) or {}
        ended = transaction.commit(output.entry, check=chain.check)
        chain.pass_on(ended)
        taken = chain.taken(begin, ends, ended)
        taken[running.name] = self._taken_in(running, begin, chain.of_head(ends))
        for name, chunks in transaction.chunks.items():
            self.running[chain.writer(name, running.name)].bytes += sum(chunk.nbytes for chunk in chunks)
        for name, size in output.written.items():
            self.running[chain.writer(name, running.name)].bytes += size
        for name, count in taken.items():
            own = [letter for letter in letters if not chain.members or letter.processor == name]
            again = sum(
                rows_between(begin, {retry_topic: ends[retry_topic]})
                for retry_topic in _retry_topics(self.running[name], ends)
            )
            self._count(self.running[name], count, again, [letter for letter in own if letter.attempts == 1])
        return ended

    def _wait_room(self, running: ProcessorRun, transaction: Transaction, patience_ms: int) -> None:
        """Waits for space. Raises if the processor is claimed or the engine stops meanwhile, or after `patience_ms`."""
        cancel = running.cancel
        running.waits_room = True
        try:
            full = transaction.wait_room(cancel, patience_ms / 1000 if patience_ms else None)
        finally:
            running.waits_room = False
        if not full:
            return
        if self._closed:
            raise Unavailable(f'the engine stops while processor "{running.name}" waits for space in topic "{full}"')
        if patience_ms and not cancel.is_set():
            raise Unavailable(f'topic "{full}" is full')
        raise Fenced(f'processor "{running.name}" was claimed again while it waited for space in topic "{full}"')

    def _taken_in(self, running: ProcessorRun, begin: Ends, ends: Ends) -> int:
        """Number of records of a range that could be read: without those that were lost with an engine or
        overwritten."""
        there = {name: at for name, at in places(ends).items() if self._topics[name].inc == at.inc}
        rows = rows_between(begin, there)
        for name, inc, start, stop in running.lost:
            if name in there and there[name].inc == inc and start >= 0:
                first = begin[name].off if name in begin and begin[name].inc == inc else 0
                rows -= max(min(stop, there[name].off) - max(start, first), 0)
        return rows

    def _returned(self, letter: Letter) -> Letter:
        """The letter of a replayed record: the original letter with one more attempt."""
        origin = self._ledger.origin(letter.topic, letter.offset) if is_retry_topic(letter.topic) else None
        if origin is None:
            return letter
        where = {"topic": origin.topic, "inc": origin.inc, "offset": origin.offset}
        if origin.partition:
            where["partition"] = origin.partition
        return msgspec.structs.replace(letter, **where, attempts=origin.attempts + 1)

    def _count(self, running: ProcessorRun, records: int, again: int, letters: list[Letter]) -> None:
        """Counts `records`, of which `again` are replayed; these and their letters were counted before."""
        running.records += records - again
        running.dead += len(letters)
        failed = sum(letter.reason not in (SKIPPED, LATE) for letter in letters)
        reason = running.ratio.add(records - again, failed, time.monotonic())
        if reason := reason or (self._dead_full(running.name) if letters else ""):
            self.stop(running, reason)

    def stop(self, running: ProcessorRun, reason: str) -> None:
        """Stops a processor, and its chain, until it is retried."""
        reason += f" (gauss dlq show --processor {running.name}, then: gauss processors retry {running.name})"
        for name in running.chain or (running.name,):
            self.running[name].stopped = reason if name == running.name else f"{running.name}: {reason}"
            log.error("processor %s stopped: %s", name, self.running[name].stopped)
            self._on_stop(name, self.running[name].stopped)

    def resume(self, name: str) -> None:
        """Clears the reason for which a processor, or its chain, was stopped."""
        for each in self.processor(name).chain or (name,):
            running = self.running[each]
            running.stopped = ""
            running.ratio = running.ratio.fresh()
