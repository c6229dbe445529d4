"""The standing jobs of hosted chains. Those that read the same topic in the same format share one; a chain that lags,
fails or is slow gets one of its own until it has caught up."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

import msgspec

from gauss.config.spec import ProcessorDef
from gauss.config.topics import topics_of
from gauss.model.errors import ConfigError
from gauss.stream.driver import compile as compiling
from gauss.stream.driver import detect
from gauss.stream.driver.chains import Chains
from gauss.stream.driver.checkpoint import Checkpoint
from gauss.stream.driver.fingerprint import plan_hash
from gauss.stream.driver.plan import (
    ChainPlan,
    FieldRef,
    HostedPlan,
    ReadPlan,
    Sizes,
    StandingPlan,
    Step,
    Work,
    encode_fields,
)
from gauss.stream.driver.supervised import DETECTING, Context, State
from gauss.stream.driver.teams import Team
from gauss.stream.driver.units import LOADING, StandingUnit
from gauss.stream.engine.running import retry_inlet
from gauss.stream.protocol import DriverCommand, News, QueryStatus

SLOW_S = 5.0
"""So long a task of several chains may be at work on one of them."""
FIRST_AWAY_S, MOST_AWAY_S = 5.0, 300.0
"""How long a chain that has caught up goes on alone before it comes back; doubled each time it is taken out."""

log = logging.getLogger(__name__)


class HostedUnit(StandingUnit):
    """Some chains in one job."""

    def __init__(self, context: Context, chains: Chains, heads: list[str], cores: int) -> None:
        entries = {entry.name: entry for entry in context.pipeline.processors}
        tasks = entries[heads[0]].parallelism if len(heads) == 1 else None
        super().__init__(context, heads[0], tasks, cores)
        self.chains, self.heads, self._entries = chains, heads, entries
        self._designs: dict[str, compiling.Design] = {}
        self.undecided: list[str] = []
        """Heads that must see their first records before they can be planned."""

    @property
    def names(self) -> list[str]:
        return [name for head in self.heads for name in self.chains.members(head)]

    def renew(self) -> None:
        super().renew()
        self._designs = {}

    def began(self, detail: str = "") -> None:
        tables = [design.ref.table.topic for design in self._designs.values() if design.ref.table is not None]
        super().began(detail or (f"{LOADING} {', '.join(tables)} with its first records" if tables else ""))

    def plan(self, job: int) -> StandingPlan | None:
        section = self.context.pipeline.spark
        found = [self._chain(head) for head in self.heads]
        self.undecided = [head for head, chain in zip(self.heads, found, strict=True) if chain is None]
        if self.undecided:
            self.forget_failures()  # it is up: there is nothing to do, or to fail at, before the first record
            self.began(DETECTING)
            return None
        sizes = Sizes(section.max_batch_rows, section.max_batch_bytes, section.target_batch_ms)
        return HostedPlan(self.context.flight, job, sizes, [chain for chain in found if chain is not None])

    def _chain(self, head: str) -> ChainPlan | None:
        inner = self.chains.inner()
        first = self._step(head, self._entries[head], topics_of(self._entries[head])[0][0].topic)
        if first is None:
            return None
        steps = [self._step(head, self._entries[name], inner[name].topic) for name in self.chains.members(head)[1:]]
        return ChainPlan(first, [step for step in steps if step is not None])

    def _step(self, head: str, entry: ProcessorDef, topic: str) -> Step | None:
        """One processor; None while the kinds of its fields are not known."""
        design = self._design(entry)
        assert design.hosted is not None
        kinds = self._kinds(entry, design)
        if kinds is None:
            return None
        read = ReadPlan(
            flight=self.context.flight,
            processor=head,
            generation=0,
            start={},
            read=topics_of(entry)[0][0].read,
            format=design.input,
            fields=encode_fields(design.decided(kinds)),
            member=entry.name,
        )
        target = entry.target.topic if entry.target else ""
        routes = [] if entry.target else topics_of(entry)[1]
        return Step(entry.name, topic, Work(read, design.hosted), target, design.output, routes)

    def _design(self, entry: ProcessorDef) -> compiling.Design:
        if entry.name not in self._designs:
            self._designs[entry.name] = compiling.design(self.context.pipeline, entry)
        return self._designs[entry.name]

    def _kinds(self, entry: ProcessorDef, design: compiling.Design) -> dict[str, FieldRef] | None:
        """Types of undecided fields; None while there is no record to look at."""
        topics = [*(source.topic for source in topics_of(entry)[0]), retry_inlet(entry.name)]
        path = Checkpoint(self.context.data_dir, entry.name, plan_hash(self.context.pipeline, entry)).kinds
        return detect.kinds(self.context.client, entry.name, topics, design, path)

    def check(self, head: str) -> None:
        """Raises ConfigError if a chain can't run as it is."""
        for name in self.chains.members(head):
            self._design(self._entries[name])

    def slow(self) -> str:
        """The head on which the task has been at work for too long; empty if there is none."""
        return next((name for name, each in self._news.items() if each.busy_s > SLOW_S and name in self.heads), "")

    def is_stalled(self) -> bool:
        return len(self.heads) == 1 and super().is_stalled()  # of several, who it is must be found first

    def is_stuck(self) -> bool:
        """Whether an epoch is under way for so long, and the task can't even say at whose work it is."""
        told = self._news.values()
        return any(each.under_way_s > 3 * SLOW_S for each in told) and not any(each.busy_s for each in told)

    def kill(self) -> None:
        """Ends the job wherever it is."""
        self._end(grace_s=0)
        self.renew()

    def has_caught_up(self) -> bool:
        """Whether it gets on, and has little left to read."""
        head = self._news.get(self.name)
        if head is None or not self.is_started or self.failures:
            return False
        return head.under_way_s < 1.0 and head.behind <= max(head.rows, 1_000)

    def statuses(self) -> list[QueryStatus]:
        found = []
        for head in self.heads:
            for name in self.chains.members(head):
                own = self.status(self.runs, name)
                if name != self.name and own.state == State.RUNNING:
                    where = f"in the task of {self.name}"
                    own = msgspec.structs.replace(own, detail=f"{where}: {own.detail}" if own.detail else where)
                found.append(own)
        return found


@dataclass
class _Away:
    """A chain with a job of its own."""

    unit: HostedUnit
    why: str
    caught_up_at: float | None = None


@dataclass
class HostedGroup:
    """The chains of a team: most of them in one job, those that were taken out in jobs of their own."""

    context: Context
    chains: Chains
    team: Team
    cores: int
    _away: dict[str, _Away] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._main = HostedUnit(self.context, self.chains, list(self.team.heads), self.cores)
        for head in self.team.heads if len(self.team.heads) > 1 else ():
            try:
                self._main.check(head)
            except ConfigError as error:
                self._take_out(head, error.message)

    @property
    def names(self) -> list[str]:
        return [name for unit in self._units() for name in unit.names]

    def _units(self) -> list[HostedUnit]:
        return [*([self._main] if self._main.heads else []), *(away.unit for away in self._away.values())]

    def tick(self) -> None:
        for unit in self._units():
            unit.tick()
        if len(self._main.heads) > 1:
            if self._main.state is State.WAITING and not self._main.is_passing:
                self._break_up(self._main.detail)
            if 0 < len(self._main.undecided) < len(self._main.heads):
                undecided, self._main.undecided = self._main.undecided, []
                for head in undecided:
                    self._take_out(head, DETECTING)

    def hear(self, news: dict[str, News], apart: dict[str, str]) -> None:
        """What the engine says of its processors, and of those that can't go on with the others."""
        for name, why in apart.items():
            if name in self._main.names:
                self._take_out(name, why)
        for unit in self._units():
            unit.hear(news)
        if len(self._main.heads) > 1:
            if slow := self._main.slow():
                self._main.kill()
                self._take_out(slow, "it held the others up")
            elif self._main.is_stuck():
                self._main.kill()
                self._break_up("one of the task held the others up")
        self._come_back(time.monotonic())

    def _take_out(self, name: str, why: str) -> None:
        """Gives a processor, and all behind it, a job of its own."""
        main = self._main
        if name in main.heads:
            main.heads.remove(name)
            chains = main.chains
        else:
            chains = main.chains = main.chains.without({name})
        log.info("%s runs by itself: %s", name, why)
        unit = HostedUnit(self.context, chains, [name], self.cores)
        self._away[name] = _Away(unit, why)
        pause = self._pauses.get(name)
        self._pauses[name] = FIRST_AWAY_S if pause is None else min(2 * pause, MOST_AWAY_S)
        if main.heads:
            main.name = main.heads[0]

    def _break_up(self, why: str) -> None:
        """Whoever failed was not told: each chain gets a job of its own."""
        self._main.stop()
        for head in list(self._main.heads[1:]):
            self._take_out(head, why)
        self._main.renew()

    def _come_back(self, now: float) -> None:
        """Chains that have caught up, and stayed so for a while, join the others again."""
        back = []
        for name, away in self._away.items():
            away.caught_up_at = (away.caught_up_at or now) if away.unit.has_caught_up() else None
            if away.caught_up_at is not None and now - away.caught_up_at > self._pauses[name]:
                back.append(name)
        if not back or (self._main.heads and not self._main.is_started):
            return
        for name in back:
            self._away.pop(name).unit.stop()
        self._main.stop()
        self._main.chains = self.chains.without({name for name in self._away if name not in self.team.heads})
        self._main.heads = [head for head in self.team.heads if head not in self._away]
        if self._main.heads:
            self._main.name = self._main.heads[0]
        self._main.renew()
        log.info("%s: runs with %s again", self._main.name, ", ".join(back))

    def obey(self, command: DriverCommand) -> None:
        """For one of several chains: it gets a job of its own, in which it obeys."""
        name = command.processor
        if name in self._main.names:
            head = next(head for head in self._main.heads if name in self._main.chains.members(head))
            if len(self._main.heads) == 1:
                self._main.obey(command)
                return
            self._take_out(head, f"{command.action} was asked for")
            name = head
        unit = next(unit for unit in self._units() if name in unit.names)
        unit.obey(command)

    def stop(self) -> None:
        for unit in self._units():
            unit.stop()

    def close(self) -> None:
        """Ends everything."""
        for unit in self._units():
            unit.close()

    def statuses(self) -> list[QueryStatus]:
        found = [status for unit in self._units() for status in unit.statuses()]
        for place, status in enumerate(found):
            away = self._away.get(status.processor)
            if away is not None and status.state == State.RUNNING and not status.detail:
                found[place] = msgspec.structs.replace(status, detail=f"runs by itself: {away.why}")
        return found
