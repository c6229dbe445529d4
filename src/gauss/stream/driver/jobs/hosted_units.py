"""Standing jobs of hosted chains. Chains that read the same topic in the same format share a job; a chain that lags,
fails or is slow gets its own job until it has caught up."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

import msgspec

from gauss.clients.engine.driver_messages import DriverCommand, QueryStatus, StandingProgress
from gauss.config.spec import ProcessorDef
from gauss.config.topics import topics_of
from gauss.model.errors import ConfigError
from gauss.model.names import retry_topic
from gauss.stream.driver.jobs.unit import LOADING, StandingUnit
from gauss.stream.driver.planning import detect
from gauss.stream.driver.planning.chains import Chains
from gauss.stream.driver.planning.checkpoint import Checkpoint
from gauss.stream.driver.planning.fingerprint import plan_hash
from gauss.stream.driver.planning.outside import outside, outside_sources
from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.planning.refs import FieldRef, encode_fields
from gauss.stream.driver.planning.shared_reads import Team
from gauss.stream.driver.planning.standing_plans import ChainPlan, ChainStep, HostedPlan, Sizes, StandingPlan
from gauss.stream.driver.queries import compile as compiling
from gauss.stream.driver.supervised import DETECTING, Context, WorkState

SLOW_S = 5.0
"""Maximum time that a task of several chains may spend on one of them at a stretch."""
FIRST_AWAY_S, MOST_AWAY_S = 5.0, 300.0
"""How long a chain that has caught up stays in its own job before it rejoins; doubled each time it is taken out."""

log = logging.getLogger(__name__)


class HostedUnit(StandingUnit):
    """A standing job that runs one or more chains."""

    def __init__(self, context: Context, chains: Chains, heads: list[str], cores: int) -> None:
        entries = {entry.name: entry for entry in context.pipeline.processors}
        tasks = entries[heads[0]].parallelism if len(heads) == 1 else None
        super().__init__(context, heads[0], tasks, cores)
        self.chains, self.heads, self._entries = chains, heads, entries
        self._designs: dict[str, compiling.Design] = {}
        self.undecided: list[str] = []
        """Heads that cannot be planned before their first records show the types of their fields."""

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
            self.forget_failures()  # without records nothing can fail
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

    def _step(self, head: str, entry: ProcessorDef, topic: str) -> ChainStep | None:
        """The step of one processor; None while the types of its fields are unknown."""
        design = self._design(entry)
        kinds = self._kinds(entry, design)
        if kinds is None:
            return None
        read = RangeRead(
            flight=self.context.flight,
            processor=head,
            generation=0,
            format=design.input,
            fields=encode_fields(design.decided(kinds)),
            member=entry.name,
            outside=outside_sources(self.context.pipeline, topics_of(entry)[0]),
        )
        target = entry.target.topic if entry.target else ""
        routes = [] if entry.target else topics_of(entry)[1]
        mode = topics_of(entry)[0][0].read
        written = outside(self.context.pipeline, topics_of(entry)[1])
        return ChainStep(entry.name, topic, read, design.ref, mode, target, design.output, routes, written)

    def _design(self, entry: ProcessorDef) -> compiling.Design:
        if entry.name not in self._designs:
            written = outside(self.context.pipeline, topics_of(entry)[1]).values()
            names = [name for each in written for name in (each.key, each.partition)]
            self._designs[entry.name] = compiling.design(self.context.pipeline, entry).with_fields(names)
        return self._designs[entry.name]

    def _kinds(self, entry: ProcessorDef, design: compiling.Design) -> dict[str, FieldRef] | None:
        """Types of undecided fields; None while there is no record to sample."""
        topics = [*(source.topic for source in topics_of(entry)[0]), retry_topic(entry.name)]
        path = Checkpoint(self.context.data_dir, entry.name, plan_hash(self.context.pipeline, entry)).kinds
        return detect.kinds(self.context.client, entry.name, topics, design, path)

    def check(self, head: str) -> None:
        """Raises ConfigError if a processor of the chain cannot be planned."""
        for name in self.chains.members(head):
            self._design(self._entries[name])

    def slow(self) -> str:
        """The head on which the task has spent more than SLOW_S; empty if there is none."""
        return next((name for name, each in self._news.items() if each.busy_s > SLOW_S and name in self.heads), "")

    def is_stalled(self) -> bool:
        return len(self.heads) == 1 and super().is_stalled()  # of several, the slow one must be found first

    def is_stuck(self) -> bool:
        """Whether an epoch takes too long and the task does not report which chain it is working on."""
        own = self._news.values()
        return any(each.under_way_s > 3 * SLOW_S for each in own) and not any(each.busy_s for each in own)

    def kill(self) -> None:
        """Cancels the job at once."""
        self._end(grace_s=0)
        self.renew()

    def has_caught_up(self) -> bool:
        """Whether it runs without failures and has little left to read."""
        head = self._news.get(self.name)
        if head is None or not self.is_started or self.failures:
            return False
        return head.under_way_s < 1.0 and head.behind <= max(head.rows, 1_000)

    def statuses(self) -> list[QueryStatus]:
        found = []
        for head in self.heads:
            for name in self.chains.members(head):
                own = self.status(self.runs, name)
                if name != self.name and own.state == WorkState.RUNNING:
                    where = f"in the task of {self.name}"
                    own = msgspec.structs.replace(own, detail=f"{where}: {own.detail}" if own.detail else where)
                found.append(own)
        return found


@dataclass
class _Away:
    """A chain that was taken out into its own job."""

    unit: HostedUnit
    why: str
    caught_up_at: float | None = None


@dataclass
class HostedGroup:
    """The chains of a team: a shared job, and a separate job for each chain that was taken out."""

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
            if self._main.state is WorkState.WAITING and not self._main.is_passing:
                self._break_up(self._main.detail)
            if 0 < len(self._main.undecided) < len(self._main.heads):
                undecided, self._main.undecided = self._main.undecided, []
                for head in undecided:
                    self._take_out(head, DETECTING)

    def receive(self, news: dict[str, StandingProgress], apart: dict[str, str]) -> None:
        """Takes the engine's news of its processors; those in `apart` have to leave the shared job, with the reason."""
        for name, why in apart.items():
            if name in self._main.names:
                self._take_out(name, why)
        for unit in self._units():
            unit.receive(news)
        if len(self._main.heads) > 1:
            if slow := self._main.slow():
                self._main.kill()
                self._take_out(slow, "it blocked the other chains of its task")
            elif self._main.is_stuck():
                self._main.kill()
                self._break_up("one chain of the task blocked the others")
        self._come_back(time.monotonic())

    def _take_out(self, name: str, why: str) -> None:
        """Moves a processor and all steps after it into their own job."""
        main = self._main
        if name in main.heads:
            main.heads.remove(name)
            chains = main.chains
        else:
            chains = main.chains = main.chains.without({name})
        log.info("%s runs in its own task: %s", name, why)
        unit = HostedUnit(self.context, chains, [name], self.cores)
        self._away[name] = _Away(unit, why)
        pause = self._pauses.get(name)
        self._pauses[name] = FIRST_AWAY_S if pause is None else min(2 * pause, MOST_AWAY_S)
        if main.heads:
            main.name = main.heads[0]

    def _break_up(self, why: str) -> None:
        """Moves each chain into its own job, because it is unknown which of them failed."""
        self._main.stop()
        for head in list(self._main.heads[1:]):
            self._take_out(head, why)
        self._main.renew()

    def _come_back(self, now: float) -> None:
        """Moves chains that have caught up, and stayed so for a while, back into the shared job."""
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
        log.info("%s shares a task with %s again", self._main.name, ", ".join(back))

    def execute(self, command: DriverCommand) -> None:
        """Executes a command. One of several chains is first moved into its own job."""
        name = command.processor
        if name in self._main.names:
            head = next(head for head in self._main.heads if name in self._main.chains.members(head))
            if len(self._main.heads) == 1:
                self._main.execute(command)
                return
            self._take_out(head, f"a user requested {command.action}")
            name = head
        unit = next(unit for unit in self._units() if name in unit.names)
        unit.execute(command)

    def stop(self) -> None:
        for unit in self._units():
            unit.stop()

    def close(self) -> None:
        """Stops all jobs for good."""
        for unit in self._units():
            unit.close()

    def statuses(self) -> list[QueryStatus]:
        found = [status for unit in self._units() for status in unit.statuses()]
        for place, status in enumerate(found):
            away = self._away.get(status.processor)
            if away is not None and status.state == WorkState.RUNNING and not status.detail:
                found[place] = msgspec.structs.replace(status, detail=f"in its own task: {away.why}")
        return found
