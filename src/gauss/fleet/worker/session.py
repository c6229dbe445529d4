"""The partitions of an instance while it is a member of the group: their ranges, from the intent to the commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gauss.clients.kafka.admin import Topic
from gauss.clients.kafka.reading import Range
from gauss.fleet.leases.claims import Claim, End, Intent, Outcome
from gauss.fleet.leases.deadline import Deadline
from gauss.fleet.leases.keeper import clock
from gauss.fleet.worker.configs import with_newest_connections
from gauss.fleet.worker.fences import OtherTopic, TooLate
from gauss.fleet.worker.lag import PassedEnds
from gauss.fleet.worker.member import GroupMember
from gauss.fleet.worker.range_work import MOST_LETTERS, MOST_LETTERS_BYTES, PipelineConfig, RangeWork
from gauss.fleet.worker.rate import RateLimit
from gauss.fleet.worker.runner import Answer, Failure
from gauss.fleet.worker.starts import start_offsets
from gauss.model.errors import ConfigError, GaussError, Unavailable

if TYPE_CHECKING:
    from gauss.fleet.worker.instance import Instance

MOST_RANGE = 131_072
"""Records of a range. An attempt may end before its end, so it is no limit of memory or time."""
REPORT_ENDS_SECONDS = 2.0
SAME_ENDS_SECONDS = 60.0
"""Ends that have not changed are reported this seldom: thousands of idle slots would keep the store busy."""
IDLE_SECONDS = 5.0
"""Kafka assigns partitions sooner, unless there are none left."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0


class Session:
    """One membership: it ends when the topic or the Kafka part of the config is another one."""

    def __init__(self, instance: Instance, config: PipelineConfig, topic: Topic) -> None:
        self.config = config
        self._instance = instance
        self._around = instance.around
        self._owner = instance.owner
        self._topic = topic
        self._began = time.monotonic()
        self._claims: dict[int, Claim] = {}
        self._unclear: dict[int, float] = {}
        """Partitions whose pending range was tried before, by us or an earlier owner, and since when that is over."""
        self._most: dict[int, int] = {}
        """By partition, the records of an attempt, if no block of the range has fitted into the time."""
        self._checked = 0
        """The version of the config whose table was found to fit."""
        self._since: dict[int, float] = {}
        self._ends: dict[int, int] = {}
        self._passed: dict[int, PassedEnds] = {}
        self._newest_ms: dict[int, int] = {}
        self._ends_at = 0.0
        self._reported: dict[int, tuple[int, int, float]] = {}
        """By partition, what was reported: the end, the offset that was committed, and when."""
        self._rate = RateLimit()
        self._failures = 0
        """Attempts that failed since the last one that did not."""
        self._pause, self._try_at = FIRST_PAUSE, 0.0

    def use(self, config: PipelineConfig) -> None:
        """Applies an edit. It may correct what failed, so it is tried at once."""
        self.config = config
        self._pause, self._try_at = FIRST_PAUSE, 0.0

    def take(self, partitions: list[int]) -> None:
        """Claims partitions that Kafka has assigned. The first instance of a pipeline notes where all partitions start,
        so that those that are added later are known as such."""
        if not partitions:
            return
        kafka, claims = self.config.kafka, self._around.store.claims
        place = (self._owner.pipeline_id, kafka.topic)
        if new := claims.missing(*place, self._topic.topic_id, partitions):
            is_first = not claims.has_any(*place)
            if is_first:
                new = sorted({*new, *(each.number for each in self._topic.partitions)})
            admin = self._around.clusters.of(kafka.settings()).admin
            starts = start_offsets(admin, kafka, new, is_first=is_first)
        else:
            starts = {}
        for claim in claims.take(self._owner, kafka.topic, self._topic.topic_id, partitions, starts):
            self._claims[claim.partition] = claim
            if claim.pending is not None:
                self._unclear[claim.partition] = time.monotonic()

    def drop(self, partitions: list[int]) -> None:
        """Gives up partitions that Kafka has revoked. A pending range is settled by the next owner."""
        gone = [self._claims.pop(each) for each in partitions if each in self._claims]
        for each in gone:
            for known in (self._reported, self._unclear, self._most, self._since):
                known.pop(each.partition, None)
        if gone:
            self._around.store.claims.release(self._owner, gone)

    def close(self) -> None:
        with contextlib.suppress(GaussError):  # the next owner takes them anyway
            self.drop(list(self._claims))

    def step(self, member: GroupMember) -> None:
        """Inserts and commits what is due. Raises OtherTopic if the topic was made anew."""
        if not self._claims:
            self._tell_idle()
            return
        if time.monotonic() < self._try_at:
            return
        cluster = self._around.clusters.of(self.config.kafka.settings())
        try:
            self._ends |= cluster.ends(self.config.kafka.topic, self._topic.topic_id, self._claims)
        except Unavailable as error:  # a member that left the group for it would move its partitions for nothing
            self._instance.report("waiting", error.message)
            return
        self._look()
        if not (works := self._works()):
            if not self._failures:
                self._instance.report("running", "")
            return
        answers = self._around.runner.run(self._owner.pipeline_id, works, is_trial=self._failures > 0)
        if all(answer is None for answer in answers):  # others that fail are tried
            self._try_at = time.monotonic() + FIRST_PAUSE
        elif works[0].is_check:
            failures = [answer.error for answer in answers if isinstance(answer, Failure)]
            self._checked = 0 if failures else works[0].config.version
            self._back_off(failures)
        else:
            self._commit(works, answers, member)

    def _tell_idle(self) -> None:
        if time.monotonic() - self._began > IDLE_SECONDS:
            count = len(self._topic.partitions)
            self._instance.report("idle", f"no partition is left for it: the topic has {count}")

    def _commit(self, works: Sequence[RangeWork], answers: Sequence[Answer], member: GroupMember) -> None:
        outcomes, failures = [], []
        for work, answer in zip(works, answers, strict=True):
            claim = self._claims[work.range.partition]
            if isinstance(answer, Failure):
                self._fail(work, answer.error)
                failures.append(answer.error)
            elif answer is not None:
                self._newest_ms[claim.partition] = answer.newest_ms or self._newest_ms.get(claim.partition, 0)
                outcome = Outcome(claim, answer.rows, answer.bytes, answer.letters, answer.took_ms, answer.stop)
                outcomes.append(outcome)
        for some in transactions(outcomes):
            for claim in self._around.store.claims.advance(self._owner, some):
                self._claims[claim.partition] = claim
                if claim.pending is None:
                    for known in (self._unclear, self._most, self._since):
                        known.pop(claim.partition, None)
        if outcomes:
            self._rate.add(sum(each.rows for each in outcomes))
            member.commit({each.claim.partition: self._claims[each.claim.partition].next_offset for each in outcomes})
        if other := next((each for each in failures if isinstance(each, OtherTopic)), None):
            raise other
        self._back_off(failures)

    def _fail(self, work: RangeWork, error: GaussError) -> None:
        """Nothing is under way of a range that was too late, unless it was unclear before: its blocks may be cut then
        until one fits into the time."""
        partition = work.range.partition
        if isinstance(error, TooLate) and not work.settle_s:
            self._most[partition] = max((work.range.end - work.range.start) // 2, 1)
        self._unclear.setdefault(partition, time.monotonic() if not isinstance(error, TooLate) else 0.0)

    def _back_off(self, failures: list[GaussError]) -> None:
        if not failures:
            self._failures, self._pause = 0, FIRST_PAUSE
            self._instance.report("running", "")
            return
        self._failures += 1
        self._instance.report("failing" if isinstance(failures[0], ConfigError) else "waiting", failures[0].message)
        self._try_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _look(self) -> None:
        """The ends of the partitions, shown to users every few seconds."""
        now = time.monotonic()
        for number, end in self._ends.items():
            self._passed.setdefault(number, PassedEnds()).see(end, now)
        if now - self._ends_at > REPORT_ENDS_SECONDS:
            self._ends_at = now
            known = {each: self._end(each, now) for each in self._claims.values() if self._is_news(each, now)}
            if known:
                self._around.store.claims.report_ends(self._owner, known)
                self._reported |= {each.partition: (end.offset, each.next_offset, now) for each, end in known.items()}

    def _is_news(self, claim: Claim, now: float) -> bool:
        """Whether the end of a partition is known, and differs from what was reported of it. A partition whose range is
        stuck is always reported: its epoch tells whether an operator has given it another config."""
        if (end := self._ends.get(claim.partition)) is None:
            return False
        if claim.pending is not None:
            return True
        *reported, at = self._reported.get(claim.partition, (-1, -1, now))
        return reported != [end, claim.next_offset] or now - at > SAME_ENDS_SECONDS

    def _end(self, claim: Claim, now: float) -> End:
        """Of a backlog that was there before the first look, only the time of the last committed record is known."""
        end = self._ends[claim.partition]
        if end <= claim.next_offset:
            return End(end)
        behind = self._passed[claim.partition].behind(claim.next_offset, now)
        if behind is not None:
            return End(end, behind_ms=int(behind * 1000))
        return End(end, behind_since=self._newest_ms.get(claim.partition) or None)

    def _works(self) -> list[RangeWork]:
        """The ranges that are due, each with its intent in the store. After a failure pending ones are tried one at a
        time. An intent is bound to a version of the config, so it is written only after the table was found to fit."""
        pending = [claim for claim in self._claims.values() if claim.pending is not None]
        if pending and self._failures:
            pending = [pending[self._failures % len(pending)]]
        elif self._checked == self.config.version:
            if due := list(self._due()):
                new = self._around.store.claims.intend(self._owner, due)
                self._claims.update((claim.partition, claim) for claim in new)
                pending += new
        elif not pending:
            claim = next(iter(self._claims.values()))
            nothing = Range(claim.topic, claim.partition, claim.next_offset, claim.next_offset, claim.topic_id)
            return [RangeWork(self.config, nothing, claim.inc, claim.epoch, False, 0.0)]
        return [self._work(claim) for claim in pending]

    def _due(self) -> Iterator[tuple[Claim, Intent]]:
        """The rate limit is that of the whole pipeline, so each instance gets the share of its partitions."""
        config, now = self.config.clickhouse, time.monotonic()
        share = len(self._claims) / max(len(self._topic.partitions), len(self._claims))
        if self._rate.is_exceeded(config.insert_rate_limit * share):
            return
        most = min(config.batch_size, MOST_RANGE)
        for number, claim in self._claims.items():
            waiting = self._ends.get(number, 0) - claim.next_offset
            if waiting <= 0 or claim.pending is not None:
                continue
            since = self._since.setdefault(number, now)
            if waiting >= most or now - since >= config.flush_interval_ms / 1000:
                stop = claim.next_offset + min(waiting, most)
                yield claim, Intent(stop, self.config.version)

    def _work(self, claim: Claim) -> RangeWork:
        assert claim.pending is not None
        since, held = self._unclear.get(claim.partition), self._instance.held
        stop_at = clock() + self._around.ttl_ms * 2 / 3000 if held is None else held.stop_at
        settle = 0.0 if since is None else max(since + self._around.ttl_ms / 1000 - time.monotonic(), 0.0)
        stop = min(claim.pending.stop, claim.next_offset + self._most.get(claim.partition, MOST_RANGE))
        return RangeWork(
            with_newest_connections(self._instance.configs.at(claim.pending.version), self.config),
            Range(claim.topic, claim.partition, claim.next_offset, stop, claim.topic_id),
            claim.inc,
            claim.epoch,
            since is not None,
            settle,
            Deadline.of(stop_at),
        )


def transactions(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Outcomes that the store notes at once: the time of a transaction is limited, and so are their dead letters."""
    some: list[Outcome] = []
    letters = size = 0
    for each in outcomes:
        letters += len(each.letters)
        size += sum(letter.size for letter in each.letters)
        if some and (letters > MOST_LETTERS or size > MOST_LETTERS_BYTES):
            yield some
            some, letters, size = [], len(each.letters), sum(letter.size for letter in each.letters)
        some.append(each)
    if some:
        yield some
