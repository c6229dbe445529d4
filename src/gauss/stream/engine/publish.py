"""Publishing: an epoch becomes visible in all its targets by one journal entry, or in none. Zombies are refused."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from gauss.contracts.chunk import Chunk
from gauss.model.errors import ConfigError, Fenced, NotFound, ProtocolError, Unavailable
from gauss.stream.engine.chained import Chained, at_end, decoded_letters, offsets_filled
from gauss.stream.engine.dead import DEAD_TOPIC, LATE, SKIPPED, Letter, letter_of, letters_chunk
from gauss.stream.engine.entries import Bounds, ClaimMade, EpochPublished, ProcessorRow
from gauss.stream.engine.epochs import (
    held,
    input_ts,
    published_before,
    rows_between,
    skipped_letters,
    staged_chunks,
)
from gauss.stream.engine.ledger import Ledger
from gauss.stream.engine.running import Running
from gauss.stream.engine.stages import Stages
from gauss.stream.engine.times import seen_by
from gauss.stream.engine.topic import Topic
from gauss.stream.protocol import At, Claim, Claimed, Ends, Member, Publish, Published

log = logging.getLogger(__name__)


class Publisher:
    """Claims and publishes. Lock order: a processor, topics by name, the ledger."""

    def __init__(
        self,
        topics: Mapping[str, Topic],
        ledger: Ledger,
        stages: Stages,
        *,
        synced: frozenset[str] = frozenset(),
        on_stop: Callable[[str, str], None] = lambda _processor, _reason: None,
    ) -> None:
        """`synced` are the topics whose commits must be on disk at once; `on_stop` is told who was stopped and why."""
        self._topics = topics
        self._ledger = ledger
        self._stages = stages
        self._synced = synced
        self._on_stop = on_stop
        self.running: dict[str, Running] = {}
        self._closed = False

    def add(self, running: Running, start: str | int = "earliest") -> None:
        """Registers a processor and its readers, where the ledger says or else at `start`."""
        row = self._ledger.row(running.name)
        if running.bounded is not None and row is not None:
            running.bounded.restore(row.bounds)
        for name in running.sources if running.read != "latest" else ():
            topic = self._topics[name]
            place = start if name == running.sources[0] else "earliest"
            at = held(row, name, keep_epochs=True)
            if at is not None and at.inc == topic.inc:
                # The last epochs are kept as far as they still lie there: what is gone of them is no loss.
                place = max(at.off, topic.floor())
            running.readers[name] = topic.reader(running.name, place, keep=False)
        self.running[running.name] = running

    def processor(self, name: str) -> Running:
        if name not in self.running:
            known = ", ".join(sorted(self.running)) or "none"
            raise NotFound(f'no processor "{name}" that publishes', hint=f"in this config: {known}")
        return self.running[name]

    def check_generation(self, processor: str, generation: int) -> ProcessorRow:
        """The processor's row; refuses whoever is not of the last claim."""
        row = self._ledger.row(processor)
        if row is None:
            raise ProtocolError(f'processor "{processor}" was never claimed', hint="claim it before anything else")
        if generation < row.generation:
            raise Fenced(
                f'processor "{processor}": generation {generation} was replaced by {row.generation}',
                hint="another run of this query has taken over; this one must end",
            )
        if generation > row.generation:
            raise ProtocolError(f'processor "{processor}": generation {generation} was never given', hint="claim it")
        return row

    def claim(self, claim: Claim) -> Claimed:
        """Raises the generation; ends what an older one still waits for and sweeps what it staged."""
        running = self.processor(claim.processor)
        members = [self.processor(name) for name in claim.members]
        for name in claim.targets:
            if name not in self._topics:
                raise NotFound(f'no topic "{name}"')
        for each in (running, *members):
            each.cancel.set()
        with self._locked(claim.processor, *claim.members):
            cancel = threading.Event()
            for each in (running, *members):
                each.cancel = cancel
            if self._closed:
                cancel.set()
            if behind := [each.name for each in members if not self._at_end(each)]:
                return Claimed(0, {}, -1, False, behind=behind)
            row = self._ledger.row(claim.processor)
            bounds = running.bounded.begin() if running.bounded is not None else None
            same_range = row is None or row.bounds == bounds
            known = row is not None and row.checkpoint == claim.checkpoint and same_range
            dropped = claim.drop_state or running.drop_state
            lost = claim.stateful and not known and not self._has_state(claim.state)
            if lost and row is not None and row.ends and not dropped:
                raise ConfigError(
                    f'the state of processor "{claim.processor}" is gone: its checkpoint is not that of its last run',
                    hint=f"put the checkpoint folder back, or: gauss processors rebuild {claim.processor} (read"
                    f" everything again into an emptied target), or: gauss processors drop-state {claim.processor} (go"
                    " on without what it knew)",
                )
            sources = dict.fromkeys([*claim.sources, *running.sources])
            start = {name: self._start(running, row, name) for name in sources}
            if known and row is not None:
                start |= row.start
            elif bounds is not None and (row is None or not same_range):
                start |= self._range_start(running, bounds)
            generations = self._join(running, members, start)
            generation = (row.generation if row is not None else 0) + 1
            self._ledger.commit(ClaimMade(claim.processor, claim.checkpoint, generation, start, bounds), sync=True)
            running.drop_state = False
            self._stages.sweep(claim.processor, generation)
            log.info("processor %s: generation %d, checkpoint %s", claim.processor, generation, claim.checkpoint)
            epoch = row.epoch if known and row is not None else -1
            return Claimed(generation, start, epoch, known, members=generations)

    def _locked(self, *names: str) -> ExitStack:
        """The locks of some processors, taken in the order of their names."""
        with ExitStack() as locks:
            for name in sorted(names):
                locks.enter_context(self.processor(name).lock)
            return locks.pop_all()

    def _at_end(self, member: Running) -> bool:
        source = member.sources[0]
        return at_end(self._topics[source], self._start(member, self._ledger.row(member.name), source))

    def _join(self, head: Running, members: list[Running], start: Ends) -> dict[str, int]:
        """Claims a chain's members at the ends of their topics; their retry inlets become sources of the head."""
        for each in (self.running[name] for name in head.chain):
            each.chain = ()  # of those that are still of it, this is set anew
        head.readers = {name: reader for name, reader in head.readers.items() if name in head.sources}
        generations = {}
        for member in members:
            source, inlet = member.sources
            row = self._ledger.row(member.name)
            topic = self._topics[source]
            held_at = self._start(member, row, inlet)
            start.setdefault(inlet, held_at)
            places = {source: At(topic.inc, topic.version()), inlet: held_at}
            generation = generations[member.name] = (row.generation if row is not None else 0) + 1
            self._ledger.commit(ClaimMade(member.name, f"in the query of {head.name}", generation, places), sync=True)
            self._stages.sweep(member.name, generation)
            head.readers[inlet] = member.readers[inlet]
            member.readers[source].move(topic.version())
        names = (head.name, *generations)
        for each in (head, *members):
            each.chain, each.members = names if members else (), {}
        head.members = generations
        return generations

    def _has_state(self, topic: str) -> bool:
        """Whether a topic holds the state that was last published into it; one in memory may have died since."""
        published = self._ledger.state.published.get(topic)
        return published is not None and published.inc == self._topic(topic).inc

    def _range_start(self, running: Running, bounds: Bounds) -> Ends:
        """Where a bounded read begins for the first time; nothing before it is held back for it."""
        name = running.sources[0]
        topic = self._topics[name]
        offset = max(topic.offset_at(bounds.from_ms), topic.floor())
        if name in running.readers:
            running.readers[name].move(offset)
        return {name: At(topic.inc, offset)}

    def _start(self, running: Running, row: ProcessorRow | None, name: str) -> At:
        if (at := held(row, name)) is not None:
            return at
        if name not in self._topics:
            raise NotFound(f'no topic "{name}"')
        topic = self._topics[name]
        if name in running.readers:
            return At(topic.inc, running.readers[name].position)
        return At(topic.inc, topic.floor())

    def publish(self, publish: Publish) -> Published:
        """Publishes what an epoch's tasks staged. The same epoch with the same ends again changes nothing."""
        running = self.processor(publish.processor)
        cancel = running.cancel
        with self._locked(publish.processor, *(member.processor for member in publish.members)):
            row = self.check_generation(publish.processor, publish.generation)
            for member in publish.members:
                self.check_generation(member.processor, member.generation)
            if publish.checkpoint != row.checkpoint:
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
                name: [(stage.head.stage, staged_chunks(stage, ts_ms)) for stage in found]
                for name, found in staged.items()
            }
            said = [*(fields for stage in dead for fields in stage.letters), *decoded_letters(unread)]
            offsets_filled(by_stage, said, self._topics)
            letters = [chain.letter(publish.processor, fields) for fields in said]
            if publish.skip:
                letters = skipped_letters(self._topics, publish.processor, begin, publish.ends)
            chunks = {name: [chunk for _, found in stages for chunk in found] for name, stages in by_stage.items()}
            of_time = seen_by(times)
            ends = self._commit(running, row, publish.epoch, publish.ends, chunks, letters, cancel, of_time, chain)
            running.late += sum(time.late for time in times)
            self._stages.times.done(times)
            self._stages.done(name for names in publish.targets.values() for name in names)
            self._stages.done_dead(dead)
            return Published(False, {name: ends[name].off for name in publish.targets})

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
    ) -> Ends:
        chain = chain or Chained()
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
            if parts and not self._topics[name].wait_room(cancel):
                raise self._cancelled(running, name)
        begin = row.start_of(epoch) or {}
        ended = self._append(running.name, row, epoch, ends, ready, seen, chain)
        chain.pass_on(ended)
        taken = chain.taken(begin, ends, ended)
        taken[running.name] = rows_between(begin, chain.of_head(ends))
        for name, parts in ready.items():
            self.running[chain.writer(name, running.name)].bytes += sum(chunk.nbytes for chunk in parts)
        for name, count in taken.items():
            own = [letter for letter in letters if not chain.members or letter.processor == name]
            self._count(self.running[name], count, own)
        return ended

    def _count(self, running: Running, records: int, letters: list[Letter]) -> None:
        running.records += records
        running.dead += len(letters)
        failed = sum(letter.reason not in (SKIPPED, LATE) for letter in letters)
        if reason := running.ratio.add(records, failed, time.monotonic()):
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

    def _topic(self, name: str) -> Topic:
        if name not in self._topics:
            raise NotFound(f'no topic "{name}"', hint=f"in this config: {', '.join(sorted(self._topics))}")
        return self._topics[name]

    def stop(self, running: Running, reason: str) -> None:
        """Ends a processor's reading, and that of its chain, until somebody retries it."""
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

    def seek(self, name: str, topic: str, offset: int) -> None:
        """Puts a processor's reading elsewhere: a claim under a checkpoint of its own, which fences the running query;
        the query's next claim begins there."""
        running = self.processor(name)
        running.cancel.set()
        with running.lock:
            running.cancel = threading.Event()
            row = self._ledger.row(name)
            start = {source: self._start(running, row, source) for source in running.sources}
            start[topic] = At(self._topics[topic].inc, offset)
            self._begin_at(running, row, "seek", start)

    def rebuild(self, name: str, targets: list[str]) -> None:
        """Empties the targets and puts the processor's reading to the oldest retained records, without state."""
        running = self.processor(name)
        running.cancel.set()
        with running.lock:
            running.cancel = threading.Event()
            for target in targets:
                self._topic(target).empty()
            start = {source: At(self._topics[source].inc, self._topics[source].floor()) for source in running.sources}
            if running.bounded is not None:
                running.bounded.bounds = None
                start |= self._range_start(running, running.bounded.begin())
            self._begin_at(running, self._ledger.row(name), "rebuild", start)
            running.drop_state = True
        log.info("processor %s: rebuilds %s from the oldest records", name, ", ".join(targets))

    def _begin_at(self, running: Running, row: ProcessorRow | None, why: str, start: Ends) -> None:
        """A claim by nobody: fences the running query, and says where the next one begins."""
        generation = (row.generation if row is not None else 0) + 1
        bounds = running.bounded.begin() if running.bounded is not None else None
        claim = ClaimMade(running.name, f"{why}-{generation}", generation, start, bounds)
        self._ledger.commit(claim, sync=True)
        self._stages.sweep(running.name, generation)
        for topic, at in start.items():
            if topic in running.readers:
                running.readers[topic].move(at.off)

    def close(self) -> None:
        """Whoever waits for room gives up."""
        self._closed = True
        for running in self.running.values():
            running.cancel.set()
