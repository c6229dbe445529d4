"""A chain as one query: several hosted processors, of which Spark knows the first."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field

import msgspec

from gauss.config.topics import topics_of
from gauss.stream.driver import compile as compiling
from gauss.stream.driver.chains import Chains
from gauss.stream.driver.fingerprint import plan_hash
from gauss.stream.driver.plan import ReadPlan, Step, Work, WritePlan, encode_fields
from gauss.stream.driver.queries import Query, State
from gauss.stream.engine.dead import RETRY_PREFIX
from gauss.stream.protocol import Claim, Claimed, DriverCommand, Member, QueryStatus

log = logging.getLogger(__name__)


@dataclass
class ChainQuery(Query):
    """A head and those behind it. A member that has records of its topic left to read, or whose topic somebody else
    writes into, goes on in a query of its own, with all that lies behind it."""

    chains: Chains = field(default_factory=lambda: Chains((), {}))
    split: list[ChainQuery] = field(default_factory=list)
    why: str = ""
    """Why it was taken out of another's query."""

    def __post_init__(self) -> None:
        self._cut()
        super().__post_init__()

    def _cut(self) -> None:
        """Its members, by the links that are left."""
        entries = {entry.name: entry for entry in self.context.pipeline.processors}
        self.members = [entries[name] for name in self.chains.members(self.processor.name)[1:]]

    def _hash(self) -> str:
        """As that of a single processor while it is one; else of everybody in the chain: Spark's offsets hold the
        retry inlet of each."""
        own = super()._hash()
        if not self.members:
            return own
        others = [[entry.name, plan_hash(self.context.pipeline, entry)] for entry in self.members]
        return hashlib.sha256(msgspec.json.encode([own, others])).hexdigest()[:16]

    @property
    def names(self) -> list[str]:
        return [self.name, *(entry.name for entry in self.members), *(n for query in self.split for n in query.names)]

    def tick(self) -> None:
        super().tick()
        for query in self.split:
            query.tick()

    def _claim(self, stateful: bool) -> Claimed:
        if not self.members:
            return super()._claim(stateful)
        claimed = self._ask(stateful)
        while claimed.behind:
            self._take_out(claimed.behind)
            claimed = self._ask(stateful) if self.members else super()._claim(stateful)
        if not claimed.known:
            self.checkpoint.clear()
        return claimed

    def _ask(self, stateful: bool) -> Claimed:
        self._identity = self.checkpoint.open()
        sources = [source.topic for source in self._sources]
        members = [entry.name for entry in self.members]
        return self.context.client.claim(
            Claim(self.name, self._identity, sources, self._targets, stateful, members=members)
        )

    def _take_out(self, behind: list[str]) -> None:
        """Members that can't be part of the chain begin queries of their own."""
        before, chains = self.members, self.chains
        self.chains = chains.without(set(behind))
        self._cut()
        self._renew()
        left = {entry.name for entry in self.members}
        for entry in before:
            if entry.name in behind and self.chains.head(entry.name) == entry.name and entry.name not in left:
                log.info("%s: runs by itself, it has records of its topic left to read", entry.name)
                why = f"not in the query of {self.name}: it had records of its topic left to read"
                self.split.append(ChainQuery(self.context, entry, chains=self.chains, why=why))

    def _steps(self, claimed: Claimed, read: ReadPlan) -> tuple[list[Step], list[Member]]:
        steps, members = [], []
        inner = self.chains.inner()
        for entry in self.members:
            design = compiling.design(self.context.pipeline, entry)
            assert design.hosted is not None
            targets = topics_of(entry)[1]
            reading = msgspec.structs.replace(
                read, format=design.input, fields=encode_fields(design.decided({})), member=entry.name, time=None
            )
            target = entry.target.topic if entry.target else ""
            routes = [] if entry.target else targets
            work = Work(reading, design.hosted)
            steps.append(Step(entry.name, inner[entry.name].topic, work, target, design.output, routes))
            members.append(Member(entry.name, claimed.members[entry.name], targets))
        return steps, members

    def _chained(self, read: ReadPlan, write: WritePlan, claimed: Claimed) -> WritePlan:
        steps, members = self._steps(claimed, read)
        return msgspec.structs.replace(write, steps=steps, members=members)

    def _inlets(self) -> set[str]:
        return {RETRY_PREFIX + entry.name for entry in self.members}

    def _all_targets(self) -> list[str]:
        return [*self._targets, *(topic for entry in self.members for topic in topics_of(entry)[1])]

    def obey(self, command: DriverCommand) -> None:
        """For a member: what its chain does."""
        for query in self.split:
            if command.processor in query.names:
                query.obey(command)
                return
        super().obey(command)

    def close(self) -> None:
        """Ends everything, those that were taken out included."""
        self.stop()
        for query in self.split:
            query.close()

    def statuses(self) -> list[QueryStatus]:
        own = self.status()
        found = [own]
        if self.why and self.state is State.RUNNING and not own.detail:
            found = [msgspec.structs.replace(own, detail=self.why)]
        within = f"in the query of {self.name}"
        for entry in self.members:
            detail = f"{within}: {own.detail}" if own.detail else within
            found.append(msgspec.structs.replace(own, processor=entry.name, detail=detail, batch_rows=0))
        return [*found, *(status for query in self.split for status in query.statuses())]
