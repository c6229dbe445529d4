"""A standing task for hosted chains: what several of them read of one topic is read and decoded once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gauss.model.errors import Fenced, ProtocolError, Rejected, Unavailable, from_dict
from gauss.spark.standing import Place
from gauss.stream.driver.busy import BusyTeller
from gauss.stream.driver.chained import ChainEpoch, Leg
from gauss.stream.driver.hosted import look_up
from gauss.stream.driver.outbox import Outbox
from gauss.stream.driver.plan import ChainPlan, HostedPlan, Step, WritePlan
from gauss.stream.driver.reading import ORDERS, Range, bury, coalesced, decode, ranges, read_judged
from gauss.stream.driver.standing import Clock, EpochLoop
from gauss.stream.engine.dead import RETRY_PREFIX
from gauss.stream.protocol import Claim, Claimed, Grant, Member, Publish, PublishAll, Read, Trouble

PATIENCE_MS = 1_000
"""So long the chains of a task wait for one whose target is full; then it gets a task of its own."""
OURS = (Fenced, ProtocolError, Rejected, Unavailable)
"""Errors that say nothing against a transform."""


class Chain:
    """A chain in a task, as it was claimed."""

    def __init__(self, plan: ChainPlan, claimed: Claimed, flight: str) -> None:
        self.plan = ChainPlan(
            _at(plan.head, claimed.generation), [_at(step, claimed.generation) for step in plan.steps]
        )
        self.generation = claimed.generation
        self.members = [Member(step.name, claimed.members[step.name], step.targets) for step in plan.steps]
        self.targets = list(
            dict.fromkeys([*plan.head.targets, *(topic for step in plan.steps for topic in step.targets)])
        )
        write = WritePlan(flight, plan.name, claimed.generation, checkpoint="", checkpoint_dir="", target="")
        self.epoch = ChainEpoch(self.plan, write)

    @property
    def head(self) -> Leg:
        return self.epoch.head

    @property
    def read(self) -> str:
        return self.plan.head.work.read.read

    def leg(self, part: Range) -> Leg:
        """Who takes a range: the head, or the one whose retry inlet it is of."""
        return self.epoch.legs.get(part.topic.removeprefix(RETRY_PREFIX), self.head)

    def publish(self, grant: Grant, outbox: Outbox) -> Publish:
        """What it made of an epoch."""
        targets: dict[str, list[str]] = {topic: [] for topic in self.targets}
        if not grant.skip:
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
        )


def _at(step: Step, generation: int) -> Step:
    read = msgspec.structs.replace(step.work.read, generation=generation)
    return msgspec.structs.replace(step, work=msgspec.structs.replace(step.work, read=read))


class HostedLoop(EpochLoop):
    """Chains that read the same topic. One that fails is dropped, and the others go on."""

    def __init__(self, plan: HostedPlan, place: Place) -> None:
        super().__init__(plan.flight, plan.job, plan.sizes, place)
        self._plan = plan
        self._plans = {chain.name: chain for chain in plan.chains}
        self._chains: dict[str, Chain] = {}
        self._busy = BusyTeller(self.client) if len(plan.chains) > 1 else None

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
        self._union = _union([chain.head for chain in self._chains.values()])

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
            # They have records of their topic left to read, and do so in tasks of their own.
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
        failed: dict[str, BaseException] = {}
        for name, chain in chains.items():
            chain.epoch.begin(stays=grants[name].stays)
        working = {name: chain for name, chain in chains.items() if not grants[name].skip}
        parts = {name: ranges(grants[name].start, grants[name].end, chain.read) for name, chain in working.items()}
        shared = _shared(parts)
        for name, chain in working.items():
            own = [part for part in parts[name] if part not in shared]
            with self._guarded(chain, failed):
                self._alone(chain, own, clock)
        if shared:
            self._together(working, shared, failed, clock)
        outbox = Outbox(self.client)
        publishes = [chain.publish(grants[name], outbox) for name, chain in chains.items() if name not in failed]
        self._publish(publishes, outbox, failed)
        clock.lap("publish")
        self._settle(grants, failed)
        if self._busy is not None and (slow := self._busy.slow()) is not None:
            self._leave(*slow)

    def _leave(self, name: str, share: float) -> None:
        """Goes on without a chain that takes too much of the time; a task of its own takes it from here."""
        if name not in self.generations or len(self.generations) == 1:  # it has left, or is all that is left
            return
        why = f"it took {share:.0%} of the time of a task of {len(self._chains)} chains"
        self.client.trouble(Trouble(name, self.generations[name], why, apart=True))
        self.drop(name, why)

    @contextmanager
    def _guarded(self, chain: Chain, failed: dict[str, BaseException]) -> Iterator[None]:
        """The work on one chain, whose failure costs no other."""
        name = chain.plan.name
        try:
            with self._busy.at(name, chain.generation) if self._busy is not None else nullcontext():
                yield
        except OURS:
            raise
        except Exception as error:
            failed[name] = error

    def close(self) -> None:
        if self._busy is not None:
            self._busy.close()
        super().close()

    def _alone(self, chain: Chain, parts: list[Range], clock: Clock) -> None:
        """Ranges that only this chain reads: of its retry inlets, or all of them."""
        for part in parts:
            leg, letters = chain.leg(part), list[dict[str, Any]]()
            if leg is chain.head and leg.work.transform.table is not None:
                look_up(leg.work, part)
            if part.topic.startswith(ORDERS):
                for decoded in read_judged(leg.work.read, part, letters):
                    leg.take(decoded)
            else:
                for records in self._read(chain, part, clock):
                    leg.read(records, part, letters)
            if letters:
                bury(leg.work.read, letters, part)
            clock.lap("work")

    def _read(self, chain: Chain, part: Range, clock: Clock) -> Iterator[pa.RecordBatch]:
        ticket = Read(part.topic, part.inc, part.start, part.stop, chain.plan.name, chain.generation)
        clock.lap("work")
        for records in coalesced(self.client.read(ticket)):
            clock.lap("read")
            yield records
            clock.lap("work")
        clock.lap("read")

    def _together(
        self, chains: dict[str, Chain], parts: list[Range], failed: dict[str, BaseException], clock: Clock
    ) -> None:
        """Ranges that all chains read."""
        first = next(iter(chains.values()))
        for part in parts:
            letters: dict[str, list[dict[str, Any]]] = {name: [] for name in chains}
            rows = 0
            for records in self._read(first, part, clock):
                rows += len(records)
                given = _Shared(first.head, self._union, records, part)
                for name, chain in chains.items():
                    if name in failed:
                        continue
                    with self._guarded(chain, failed):
                        given.to(chain.head, letters[name])
            for name, chain in chains.items():
                if rows < part.stop - part.start and chain is not first:
                    self._miss(chain, part)
                if letters[name] and name not in failed:
                    bury(chain.head.work.read, letters[name], part)
            clock.lap("work")

    def _miss(self, chain: Chain, part: Range) -> None:
        """Lets the engine count for this chain too what is gone of a range."""
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
        """Of several chains those that failed go; the only one is tried again, with less of it if that is asked for."""
        for name, error in failed.items():
            if len(self._chains) == 1:
                if not isinstance(error, OURS):
                    self.trouble(name, error)
                    if grants[name].narrowed:
                        self.generations = {}
                        return
                raise error
            if isinstance(error, Fenced):
                self.generations = {}  # whoever is still its own is claimed anew
                continue
            self.trouble(name, error, apart=True)
            self.drop(name, str(error))


class _Shared:
    """Records that several heads take."""

    def __init__(self, leg: Leg, union: pa.Schema | None, records: pa.RecordBatch, part: Range) -> None:
        self._records, self._part = records, part
        self._doubts: list[dict[str, Any]] = []
        self._decoded: list[pa.RecordBatch] | None = None
        if union is not None:
            self._decoded = list(decode(leg.work.read, records, union, part, self._doubts, offsets=True))

    def to(self, leg: Leg, letters: list[dict[str, Any]]) -> None:
        if self._decoded is None or not self._is_of_all(leg, letters):
            leg.read(self._records, self._part, letters)
            return
        for decoded in self._decoded:
            leg.take(decoded, leg.lies(decoded, self._part))

    def _is_of_all(self, leg: Leg, letters: list[dict[str, Any]]) -> bool:
        """Whether what can't be decoded for all can't be for this one either, which then has letters of its own."""
        if not self._doubts:
            return True
        offsets = pa.array(sorted({each["offset"] for each in self._doubts}), pa.int64())
        doubted = self._records.filter(pc.is_in(self._records.column(0), offsets))
        own: list[dict[str, Any]] = []
        if sum(len(rows) for rows in decode(leg.work.read, doubted, leg.fields, self._part, own)):
            return False
        letters += own
        return True


def _shared(parts: dict[str, list[Range]]) -> list[Range]:
    """The ranges that all chains read, if there are several."""
    first, *others = parts.values() if len(parts) > 1 else ([],)
    return [part for part in first if all(part in other for other in others)]


def _union(heads: list[Leg]) -> pa.Schema | None:
    """The fields of all heads; None if they would decode one of them in different ways, or there is but one head."""
    found: dict[str, pa.Field] = {}
    for head in heads if len(heads) > 1 else ():
        for field in head.wanted(head.work.read.format):
            if not found.setdefault(field.name, field).equals(field, check_metadata=True):
                return None
    return pa.schema(list(found.values())) if found else None
