"""Claims: who reads for a processor and from which position. A claim fences earlier ones; seeks and rebuilds are claims
too."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import takewhile

import msgspec

from gauss.clients.engine.positions import At, Ends, place_at, places, topic_of
from gauss.clients.engine.task_messages import Claim, Claimed
from gauss.model.errors import ConfigError, Fenced, NotFound, ProtocolError
from gauss.model.names import table_processor
from gauss.stream.engine.delivery.chain_epochs import at_end
from gauss.stream.engine.delivery.epochs import held
from gauss.stream.engine.delivery.job_claims import Job
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.delivery.stages import Stages
from gauss.stream.engine.journal.entries import Bounds, ClaimMade, ProcessorRow, Rebuilt
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.partitions import is_partition
from gauss.stream.engine.topics.topic import Topic

STANDING = "standing"
"""Stands for the checkpoint of a standing job, whose only state is the ledger."""

log = logging.getLogger(__name__)


class Claims:
    """The processors of a run. Lock order: a processor, topics by name, the ledger."""

    def __init__(self, topics: Mapping[str, Topic], ledger: Ledger, stages: Stages) -> None:
        self._topics = topics
        self._ledger = ledger
        self._stages = stages
        self.running: dict[str, ProcessorRun] = {}
        self.on_claim: Callable[[ProcessorRun], None] = lambda _: None
        """Called after a claim: earlier grants are void."""
        self.on_behind: Callable[[list[str]], None] = lambda _: None
        """Called with members that still have unread input and therefore cannot join a chain."""
        self._closed = False

    def add(self, running: ProcessorRun, start: str | int = "earliest") -> None:
        """Registers a processor and its readers, at the ledger's positions or else at `start`."""
        row = self._ledger.row(running.name)
        if running.bounded is not None and row is not None:
            running.bounded.restore(row.bounds)
        for name in running.sources if running.read != "latest" else ():
            self._register(running, row, name, start if running.is_main(name) else "earliest")
        self.running[running.name] = running

    def _register(self, running: ProcessorRun, row: ProcessorRow | None, name: str, place: str | int) -> None:
        topic = self._topics[name]
        at = held(row, name, keep_epochs=True)
        if at is not None and at.inc == topic.inc:
            # The last epochs are kept as far as they still exist; missing parts are no loss.
            place = max(at.off, topic.floor())
        running.readers[name] = topic.reader(running.name, place, keep=False)

    def add_partition(self, running: ProcessorRun, key: str) -> None:
        """Adds a partition that was created during the run: it is read from its start."""
        with running.lock:
            if key in running.sources:
                return
            if running.read != "latest":
                self._register(running, self._ledger.row(running.name), key, "earliest")
            of_topic = [at for at, name in enumerate(running.sources) if topic_of(name) == topic_of(key)]
            behind = of_topic[-1] + 1
            running.sources = (*running.sources[:behind], key, *running.sources[behind:])

    def processor(self, name: str) -> ProcessorRun:
        if name not in self.running:
            known = ", ".join(sorted(self.running)) or "none"
            raise NotFound(f'no processor "{name}" that publishes', hint=f"in this config: {known}")
        return self.running[name]

    def check_generation(self, processor: str, generation: int) -> ProcessorRow:
        """The processor's row in the ledger; raises Fenced unless the generation is that of the last claim."""
        row = self._ledger.row(processor)
        if row is None:
            raise ProtocolError(f'processor "{processor}" was never claimed', hint="send a claim first")
        if generation < row.generation:
            raise Fenced(
                f'processor "{processor}": generation {generation} was replaced by {row.generation}',
                hint="another run of this query has taken over; this one must end",
            )
        if generation > row.generation:
            raise ProtocolError(f'processor "{processor}": generation {generation} is unknown', hint="claim it")
        return row

    def claim(self, claim: Claim) -> Claimed:
        """Increases the generation, cancels waits of older ones and removes what they staged. A task of a standing job
        joins the generation of its job."""
        running = self.processor(claim.processor)
        if (joined := self._joined(running, claim)) is not None:
            return joined
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
                self.on_behind(behind)
                return Claimed(0, {}, -1, False, behind=behind)
            if (joined := self._joined(running, claim)) is not None:  # another task did so meanwhile
                return joined
            row = self._ledger.row(claim.processor)
            bounds = running.bounded.begin() if running.bounded is not None else None
            same_range = row is None or row.bounds == bounds
            known = row is not None and row.checkpoint == claim.checkpoint and same_range
            dropped = claim.drop_state or running.drop_state
            running.stateful = running.stateful or claim.stateful
            lost = claim.stateful and not known and not self._has_state(claim.state)
            if lost and row is not None and row.ends and not dropped:
                raise ConfigError(
                    f'the state of processor "{claim.processor}" is gone: its checkpoint is not that of its last run',
                    hint=f"restore the checkpoint folder, or: gauss processors rebuild {claim.processor} (empty"
                    f" the target and read everything again), or: gauss processors drop-state {claim.processor}"
                    " (continue with an empty state)",
                )
            sources = dict.fromkeys([*claim.sources, *running.sources])
            start = {name: self._start(running, row, name) for name in sources}
            if known and row is not None:
                start |= row.start
            elif bounds is not None and (row is None or not same_range):
                start |= self._range_start(running, bounds)
            generations = self._join(running, members, start)
            generation = (row.generation if row is not None else 0) + 1
            made = ClaimMade(claim.processor, claim.checkpoint, generation, start, bounds)
            if claim.job:
                made = self._standing(running, row, made)
            self._ledger.commit(made, sync=True)
            running.drop_state = False
            self._stages.sweep(claim.processor, generation)
            log.info("processor %s: generation %d, checkpoint %s", claim.processor, generation, made.checkpoint)
            running.job = self._new_job(running, claim, made) if claim.job else None
            epoch = row.epoch if known and row is not None else -1
            row = self._ledger.row(claim.processor)
            assert row is not None
            times = self._times(running)
            found = Claimed(generation, start, epoch, known, generations, row.empties, row.rewound, times=times)
        self._woken((running, *members))
        return found

    def _woken(self, runs: Iterable[ProcessorRun]) -> None:
        for each in runs:
            with each.turn:
                each.turn.notify_all()
            self.on_claim(each)

    def _joined(self, running: ProcessorRun, claim: Claim) -> Claimed | None:
        """The generation that another task of the same job began; `None` if this claim begins one. Raises Fenced for an
        earlier job or attempt."""
        job = running.job
        if not claim.job or job is None:
            return None
        if claim.job < job.number or (claim.job == job.number and claim.attempt < job.attempts.get(claim.task, 0)):
            raise Fenced(f'processor "{claim.processor}" is read by a later job or attempt', hint="this task must end")
        row = self._ledger.row(running.name)
        if claim.job != job.number or claim.task in job.joined or row is None or row.generation != job.generation:
            return None
        job.joined.add(claim.task)
        job.attempts[claim.task] = claim.attempt
        members = dict(running.members)
        times = self._times(running)
        return Claimed(job.generation, row.start, -1, True, members, row.empties, row.rewound, joined=True, times=times)

    def _times(self, running: ProcessorRun) -> tuple[int, int | None] | None:
        bounded = running.bounded
        return bounded.times() if bounded is not None and is_partition(self._topics[running.sources[0]]) else None

    def _standing(self, running: ProcessorRun, row: ProcessorRow | None, made: ClaimMade) -> ClaimMade:
        """The claim of a standing job, which has no checkpoint and starts at the ledger's ends."""
        before = row.checkpoint if row is not None else STANDING
        made = msgspec.structs.replace(made, checkpoint=f"{STANDING}-{made.generation}")
        if not running.tracked:
            return made
        if before.startswith(STANDING):
            return msgspec.structs.replace(made, granted=True)
        return msgspec.structs.replace(made, rewound=self._ends_of(running))

    def _ends_of(self, running: ProcessorRun) -> Ends:
        return {name: place_at(name, self._topics[name].inc, self._topics[name].version()) for name in running.sources}

    def _new_job(self, running: ProcessorRun, claim: Claim, made: ClaimMade) -> Job:
        row, before = self._ledger.row(running.name), running.job
        assert row is not None
        if running.skip is not None and before is not None and before.given:
            running.skip.failed(before.given[0], running.failure)
        same = before is not None and before.number == claim.job
        attempts = dict(before.attempts) if same and before is not None else {}
        return Job(
            claim.job,
            made.generation,
            dict(made.start),
            again=deque(takewhile(self._exists, zip(row.granted, [*row.lanes, *[0] * len(row.granted)], strict=False))),
            attempts={**attempts, claim.task: claim.attempt},
            joined={claim.task},
            empties=bool(row.empties),
        )

    def _exists(self, granted: tuple[Ends, int]) -> bool:
        """Whether the records of a granted epoch can still be read: not if a topic was deleted and created again."""
        return all(self._topics[key].inc == at.inc for key, at in places(granted[0]).items())

    def _locked(self, *names: str) -> ExitStack:
        """Locks processors in the order of their names."""
        with ExitStack() as locks:
            for name in sorted(names):
                locks.enter_context(self.processor(name).lock)
            return locks.pop_all()

    def _at_end(self, member: ProcessorRun) -> bool:
        source = member.sources[0]
        return at_end(self._topics[source], self._start(member, self._ledger.row(member.name), source))

    def _join(self, head: ProcessorRun, members: list[ProcessorRun], start: Ends) -> dict[str, int]:
        """Claims a chain's members at the ends of their topics. Their retry topics become sources of the head."""
        for each in (self.running[name] for name in head.chain):
            each.chain = ()  # set again below for those that are still members
        head.readers = {name: reader for name, reader in head.readers.items() if name in head.sources}
        generations = {}
        for member in members:
            source, retry_topic = member.sources
            row = self._ledger.row(member.name)
            topic = self._topics[source]
            held_at = self._start(member, row, retry_topic)
            start.setdefault(retry_topic, held_at)
            places = {source: At(topic.inc, topic.version()), retry_topic: held_at}
            generation = generations[member.name] = (row.generation if row is not None else 0) + 1
            self._ledger.commit(ClaimMade(member.name, f"in the task of {head.name}", generation, places), sync=True)
            self._stages.sweep(member.name, generation)
            head.readers[retry_topic] = member.readers[retry_topic]
            member.readers[source].move(topic.version())
        names = (head.name, *generations)
        for each in (head, *members):
            each.chain, each.members = names if members else (), {}
        head.members = generations
        return generations

    def _has_state(self, topic: str) -> bool:
        """Whether a topic still holds the state that was last published into it; a memory topic may have lost it."""
        published = self._ledger.state.published.get(topic)
        return published is not None and published.inc == self._topic(topic).inc

    def _range_start(self, running: ProcessorRun, bounds: Bounds) -> Ends:
        """The start of a bounded read; records before it are not held back."""
        found: Ends = {}
        for name in filter(running.is_main, running.sources):
            topic = self._topics[name]
            offset = max(topic.offset_at(bounds.from_ms), topic.floor())
            if name in running.readers:
                running.readers[name].move(offset)
            found[name] = place_at(name, topic.inc, offset)
        return found

    def _start(self, running: ProcessorRun, row: ProcessorRow | None, name: str) -> At:
        if (at := held(row, name)) is not None:
            return at
        if name not in self._topics:
            raise NotFound(f'no topic "{name}"')
        topic = self._topics[name]
        return place_at(name, topic.inc, running.readers[name].position if name in running.readers else topic.floor())

    def seek(self, name: str, topic: str, offset: int) -> None:
        """Moves a processor to a position by a claim with a new checkpoint, which fences the running query; the next
        claim of the query starts there."""
        running = self.processor(name)
        running.cancel.set()
        with running.lock:
            running.cancel = threading.Event()
            row = self._ledger.row(name)
            start = {source: self._start(running, row, source) for source in running.sources}
            start[topic] = place_at(topic, self._topics[topic].inc, offset)
            self._begin_at(running, "seek", start)

    def rebuild(self, name: str, targets: list[str]) -> None:
        """Empties the targets and moves the processor to the oldest retained records, without state. The journal entry
        comes first: if the engine dies after it, the next one empties the topics. A table among the targets is emptied
        by its own query before the next insert."""
        queries = [self.running[name] for name in map(table_processor, targets) if name in self.running]
        running = self.processor(name)
        for each in (running, *queries):
            each.cancel.set()
        with ExitStack() as locks:
            locks.enter_context(self._locked(name, *(query.name for query in queries)))
            for each in (running, *queries):
                each.cancel = threading.Event()
            names = [*targets, *(source for query in queries for source in query.sources)]
            topics = [self._topic(each) for each in sorted(set(names))]
            for topic in topics:
                locks.enter_context(topic.lock)
            emptied = {topic.name: At(topic.inc, topic.empty_end()) for topic in topics}
            start = {
                source: place_at(source, self._topics[source].inc, self._topics[source].floor())
                for source in running.sources
            }
            if running.bounded is not None:
                running.bounded.bounds = None
                start |= self._range_start(running, running.bounded.begin())
            starts = {query.name: {source: emptied[source] for source in query.sources} for query in queries}
            claims = [self._fence(self.running[each], "rebuild", at) for each, at in ({name: start} | starts).items()]
            self._ledger.commit(Rebuilt(claims, emptied), sync=True)
            for topic in topics:
                topic.empty(emptied[topic.name].off)
            for claim in claims:
                self._moved_to(self.running[claim.processor], claim)
        log.info("processor %s: rebuilds %s from the oldest records", name, ", ".join(targets))

    def _begin_at(self, running: ProcessorRun, why: str, start: Ends) -> None:
        claim = self._fence(running, why, start)
        self._ledger.commit(claim, sync=True)
        self._moved_to(running, claim)

    def _fence(self, running: ProcessorRun, why: str, start: Ends) -> ClaimMade:
        """A claim that fences the running query and sets the start of the next one."""
        row = self._ledger.row(running.name)
        generation = (row.generation if row is not None else 0) + 1
        bounds = running.bounded.begin() if running.bounded is not None else None
        rewound = self._ends_of(running) if running.tracked else {}
        return ClaimMade(running.name, f"{why}-{generation}", generation, start, bounds, rewound)

    def _moved_to(self, running: ProcessorRun, claim: ClaimMade) -> None:
        self._stages.sweep(running.name, claim.generation)
        for topic, at in claim.start.items():
            if topic in running.readers:
                running.readers[topic].move(at.off)

    def _topic(self, name: str) -> Topic:
        if name not in self._topics:
            raise NotFound(f'no topic "{name}"', hint=f"in this config: {', '.join(sorted(self._topics))}")
        return self._topics[name]

    def close(self) -> None:
        """Cancels all waits for space."""
        self._closed = True
        for running in self.running.values():
            running.cancel.set()
