"""A standing task for hosted chains: records that several chains read are read and decoded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

import msgspec
import pyarrow as pa

from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.task_messages import (
    Claim,
    Claimed,
    Grant,
    Member,
    ProcessorFailure,
    Publish,
    PublishAll,
)
from gauss.contracts.letter import Letter
from gauss.contracts.shared_log import TopicUnusable
from gauss.model.errors import Fenced, ProtocolError, Rejected, StorageError, Unavailable, from_dict
from gauss.model.names import is_orders_topic, retrying_processor
from gauss.spark.standing import TaskPlace
from gauss.stream.driver.planning.standing_plans import ChainPlan, ChainStep, HostedPlan
from gauss.stream.driver.planning.writes import ResultWrite
from gauss.stream.driver.tasks.busy import BusyReporter
from gauss.stream.driver.tasks.chain_steps import ChainEpoch, ChainMember
from gauss.stream.driver.tasks.outbox import Outbox
from gauss.stream.driver.tasks.outside_topics import check_read
from gauss.stream.driver.tasks.reading import (
    Range,
    coalesced,
    dead_letter,
    ranges,
    read_judged,
    read_records,
)
from gauss.stream.driver.tasks.shared_records import SharedRecords, in_all, union_of
from gauss.stream.driver.tasks.standing_loop import Clock, EpochLoop
from gauss.stream.driver.tasks.transforms import look_up
from gauss.stream.driver.tasks.written_lanes import Lane, epoch_name, is_written, write_lane

PATIENCE_MS = 1_000
"""How long the chains of a task wait for one whose target is full, before that one gets its own task."""
JOINED_ROWS = 4_096
"""Maximum number of records of several partitions that are decoded at once."""
OURS = (Fenced, ProtocolError, Rejected, Unavailable)
"""Errors that are not caused by a transform."""


class Chain:
    """A claimed chain of a task."""

    def __init__(self, plan: ChainPlan, claimed: Claimed, flight: str) -> None:
        self.plan = ChainPlan(
            _at(plan.head, claimed.generation, claimed.times), [_at(step, claimed.generation) for step in plan.steps]
        )
        self.generation = claimed.generation
        self.members = [Member(step.name, claimed.members[step.name], step.targets) for step in plan.steps]
        self.targets = list(
            dict.fromkeys([*plan.head.targets, *(topic for step in plan.steps for topic in step.targets)])
        )
        self.outside = plan.head.outside
        self._flight = flight
        write = ResultWrite(flight, plan.name, claimed.generation)
        self.epoch = ChainEpoch(self.plan, write)

    @property
    def head(self) -> ChainMember:
        return self.epoch.head

    @property
    def mode(self) -> str:
        return self.plan.head.mode

    def member(self, part: Range) -> ChainMember:
        """The step that reads a range: the head, or the step whose retry topic it belongs to."""
        return self.epoch.members.get(retrying_processor(part.topic), self.head)

    def publish(self, grant: Grant, outbox: Outbox) -> Publish:
        """Stages the results of an epoch and returns their publish."""
        targets: dict[str, list[str]] = {topic: [] for topic in self.targets if topic not in self.outside}
        written: dict[str, int] = {}
        if not grant.skip:
            written = self._write_outside(grant)
            targets |= self.epoch.stage(outbox.of(self.plan.name, self.generation))
        return Publish(
            self.plan.name,
            self.generation,
            "",
            grant.epoch,
            grant.end,
            targets,
            skip=bool(grant.skip),
            why=grant.skip,
            members=self.members,
            written=written,
        )

    def _lane(self, topic: str, grant: Grant) -> Lane:
        return Lane(self._flight, self.plan.name, topic, grant.lane)

    def written(self, grant: Grant) -> list[str]:
        """Topics in outside systems that an earlier attempt of an epoch has written."""
        found = []
        for topic in self.outside:
            with suppress(StorageError):  # a lane that can't be opened is why the epoch failed
                if is_written(self._lane(topic, grant), self.generation, epoch_name(grant.end)):
                    found.append(topic)
        return found

    def _write_outside(self, grant: Grant) -> dict[str, int]:
        """Writes the results for topics in outside systems; returns the bytes by topic. The publish comes after it: if
        that fails, the same epoch is granted again, and finds what was written."""
        written: dict[str, int] = {}
        for topic in self.outside:
            if topic in self.epoch.kept:
                batches = self.epoch.kept[topic].batches
                lane = self._lane(topic, grant)
                found = write_lane(lane, self.generation, batches, epoch_name(grant.end), again=grant.again)
                self.epoch.letters += found.letters
                written[topic] = found.nbytes
        return written


def _unskipped(grant: Grant) -> Grant:
    """The grant of an epoch that is to be skipped, but of which a part is written: it is finished if possible, since
    its dead letters would stand for written records too."""
    return msgspec.structs.replace(grant, skip="")


def _half_written(grant: Grant, topics: list[str], error: BaseException) -> Grant:
    """The grant of such an epoch that could not be finished: its dead letters tell what is written."""
    return msgspec.structs.replace(grant, skip=f"{error}; its results are in topic {', '.join(topics)} already")


def _at(step: ChainStep, generation: int, times: tuple[int, int | None] | None = None) -> ChainStep:
    return msgspec.structs.replace(step, read=msgspec.structs.replace(step.read, generation=generation, times=times))


class HostedLoop(EpochLoop):
    """Runs chains that read the same topic. A chain that fails is dropped, the others continue."""

    def __init__(self, plan: HostedPlan, place: TaskPlace) -> None:
        super().__init__(plan.flight, plan.job, plan.sizes, place)
        self._plan = plan
        self._plans = {chain.name: chain for chain in plan.chains}
        self._chains: dict[str, Chain] = {}
        self._busy = BusyReporter(self.client) if len(plan.chains) > 1 else None

    def claim(self) -> None:
        self._chains = {}
        for name in list(self._plans):
            try:
                self._chains[name] = self._claimed(name)
            except Fenced:
                if len(self._plans) == 1:
                    raise
                del self._plans[name]
        self.generations = {name: chain.generation for name, chain in self._chains.items()}
        self._union = union_of([chain.head for chain in self._chains.values()])

    def _claimed(self, name: str) -> Chain:
        while True:
            plan = self._plans[name]
            head, members = plan.head, [step.name for step in plan.steps]
            claim = Claim(
                name, "", [head.topic], head.targets, members=members, job=self.job, task=self.place.task,
                attempt=self.place.attempt,
            )  # fmt: skip
            claimed = self.client.claim(claim)
            if not claimed.behind:
                return Chain(plan, claimed, self._plan.flight)
            # Members with unread records in their topic run in their own tasks.
            self._plans[name] = plan.without(set(claimed.behind))

    def is_over(self) -> bool:
        return not self._plans

    def drop(self, name: str, why: str) -> None:
        super().drop(name, why)
        self._chains.pop(name, None)
        self._plans.pop(name, None)

    # --- an epoch ---

    def work(self, grants: dict[str, Grant], clock: Clock) -> None:
        chains = {name: self._chains[name] for name in grants}
        begun = {name: chains[name].written(grant) for name, grant in grants.items() if grant.skip and grant.again}
        tried = {name: _unskipped(grant) if begun.get(name) else grant for name, grant in grants.items()}
        failed: dict[str, BaseException] = {}
        for name, chain in chains.items():
            chain.epoch.begin(stays=grants[name].stays)
        working = {name: chain for name, chain in chains.items() if not tried[name].skip}
        parts = {name: ranges(grants[name].start, grants[name].end, chain.mode) for name, chain in working.items()}
        shared = in_all(parts)
        for name, chain in working.items():
            own = [part for part in parts[name] if part not in shared]
            with self._guarded(chain, failed):
                self._alone(chain, own, clock)
        if shared:
            self._together(working, shared, failed, clock)
        check_read()
        outbox = Outbox(self.client)
        publishes: list[Publish] = []
        for name, chain in chains.items():
            if name not in failed:
                with self._guarded(chain, failed):
                    publishes.append(chain.publish(tried[name], outbox))
            if name in failed and begun.get(name):
                publishes.append(chain.publish(_half_written(grants[name], begun[name], failed.pop(name)), outbox))
        self._publish(publishes, outbox, failed)
        clock.lap("publish")
        self._settle(grants, failed)
        if self._busy is not None and (slow := self._busy.slow()) is not None:
            self._leave(*slow)

    def _leave(self, name: str, share: float) -> None:
        """Drops a chain that takes too much of the time; it continues in its own task."""
        if name not in self.generations or len(self.generations) == 1:  # already dropped, or the only one
            return
        why = f"it used {share:.0%} of the time of a task of {len(self._chains)} chains"
        self.client.report_failure(ProcessorFailure(name, self.generations[name], why, apart=True))
        self.drop(name, why)

    @contextmanager
    def _guarded(self, chain: Chain, failed: dict[str, BaseException]) -> Iterator[None]:
        """Isolates the work on one chain: its failure is collected and does not stop the others."""
        name = chain.plan.name
        try:
            with self._busy.at(name, chain.generation) if self._busy is not None else nullcontext():
                yield
        except TopicUnusable as error:
            failed[name] = error
        except OURS:
            raise
        except Exception as error:
            failed[name] = error

    def close(self) -> None:
        if self._busy is not None:
            self._busy.close()
        super().close()

    def _alone(self, chain: Chain, parts: list[Range], clock: Clock) -> None:
        """Processes the ranges that only this chain reads."""
        for group in _groups(parts, chain.head):
            if len(group) == 1:
                self._part(chain, group[0], self._read(chain, group[0], clock))
            else:
                self._joined(chain, group, [list(self._read(chain, part, clock)) for part in group])
            clock.lap("work")

    def _joined(self, chain: Chain, group: list[Range], found: list[list[pa.RecordBatch]]) -> None:
        """Processes small ranges of several partitions, at once if all records can be decoded."""
        if chain.head.step.transform.table is not None:
            look_up(chain.head.step, group[0])
        batches = [batch for each in found for batch in each]
        if batches and not chain.head.read_joined(pa.concat_batches(batches), group[0]):
            for part, each in zip(group, found, strict=True):
                self._part(chain, part, each)

    def _part(self, chain: Chain, part: Range, found: Iterable[pa.RecordBatch]) -> None:
        member, letters = chain.member(part), list[Letter]()
        if member is chain.head and member.step.transform.table is not None:
            look_up(member.step, part)
        if is_orders_topic(part.topic):
            for decoded in read_judged(member.step.read, part, letters):
                member.take(decoded)
        else:
            for records in found:
                member.read(records, part, letters)
        if letters:
            dead_letter(member.step.read, letters, part)

    def _read(
        self, chain: Chain, part: Range, clock: Clock, others: Mapping[str, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        clock.lap("work")
        for records in coalesced(read_records(chain.plan.head.read, part, others)):
            clock.lap("read")
            yield records
            clock.lap("work")
        clock.lap("read")

    def _together(
        self, chains: dict[str, Chain], parts: list[Range], failed: dict[str, BaseException], clock: Clock
    ) -> None:
        """Processes the ranges that all chains read."""
        first = next(iter(chains.values()))
        others = {name: chain.generation for name, chain in chains.items() if chain is not first}
        for part in parts:
            letters: dict[str, list[Letter]] = {name: [] for name in chains}
            rows = 0
            for records in self._read(first, part, clock, others):
                rows += len(records)
                given = SharedRecords(first.head, self._union, records, part)
                for name, chain in chains.items():
                    if name in failed:
                        continue
                    with self._guarded(chain, failed):
                        given.to(chain.head, letters[name])
            for name, chain in chains.items():
                if rows < part.size and chain is not first and part.topic not in first.plan.head.read.outside:
                    self._miss(chain, part)
                if letters[name] and name not in failed:
                    dead_letter(chain.head.step.read, letters[name], part)
            clock.lap("work")

    def _miss(self, chain: Chain, part: Range) -> None:
        """Reads a range again for another chain, so that the engine counts its lost records for that chain too."""
        ticket = Read(part.topic, part.inc, part.start, part.stop, chain.plan.name, chain.generation)
        for _ in self.client.read(ticket):
            pass

    def _publish(self, publishes: list[Publish], outbox: Outbox, failed: dict[str, BaseException]) -> None:
        if not publishes:
            return
        patience = PATIENCE_MS if len(self._chains) > 1 else 0
        outcomes = self.client.publish_all(PublishAll(publishes, outbox.inline, patience))
        for publish, outcome in zip(publishes, outcomes, strict=True):
            if outcome.error:
                failed[publish.processor] = from_dict(outcome.error)

    def _settle(self, grants: dict[str, Grant], failed: dict[str, BaseException]) -> None:
        """Handles failures: of several chains the failed ones are dropped; a single chain is retried, with a smaller
        epoch if a skip is in progress."""
        for name, error in failed.items():
            if len(self._chains) == 1:
                if not isinstance(error, OURS):
                    self.report_failure(name, error)
                    if grants[name].narrowed:
                        self.generations = {}
                        return
                raise error
            if isinstance(error, Fenced):
                self.generations = {}  # the chains that are not fenced are claimed again
                continue
            self.report_failure(name, error, apart=True)
            self.drop(name, str(error))


def _groups(parts: list[Range], head: ChainMember) -> list[list[Range]]:
    """The ranges, of which small ones of several partitions form a group: to decode a few records costs as much as to
    decode a thousand."""
    found: list[list[Range]] = []
    rows, wanted = 0, head.wanted(head.step.read.format)
    for part in parts:
        joins = part.topic in head.step.read.outside and "@partition" not in wanted.names
        if joins and found and found[-1][-1].topic == part.topic and rows + part.size <= JOINED_ROWS:
            found[-1].append(part)
        else:
            found.append([part])
            rows = 0
        rows += part.size
    return found
