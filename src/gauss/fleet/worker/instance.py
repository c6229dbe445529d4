"""An instance of a pipeline: a thread with a member of the group, which commits the ranges of its partitions."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.errors import sorted_errors
from gauss.clients.kafka.reading import Range
from gauss.clients.kafka.settings import client_conf
from gauss.fleet.config.kafka import KafkaConfig
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.claims import Claim, End, Intent, Outcome
from gauss.fleet.leases.deadline import Deadline
from gauss.fleet.leases.keeper import HeldLease
from gauss.fleet.leases.owner import Owner
from gauss.fleet.leases.slots import Wanted
from gauss.fleet.logs import about
from gauss.fleet.worker.configs import PipelineConfigs, with_newest_connections
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.lag import PassedEnds
from gauss.fleet.worker.range_work import PipelineConfig, RangeResult, RangeWork
from gauss.fleet.worker.rate import RateLimit
from gauss.fleet.worker.runner import Failure, Runner
from gauss.model.errors import ConfigError, Fenced, GaussError, Unavailable

MOST_RANGE = 131_072
"""Records of a range. A task must begin its inserts within a third of the TTL."""
REPORT_ENDS_SECONDS = 2.0
SAME_ENDS_SECONDS = 60.0
"""Ends that have not changed are reported this seldom: thousands of idle slots would keep the store busy."""
POLL_SECONDS = 0.1
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
log = logging.getLogger("gauss.fleet")


class Surroundings(NamedTuple):
    """What all instances of a worker share."""

    store: FleetStore
    runner: Runner
    clusters: Clusters
    ttl_ms: int
    data_dir: Path = Path(".gauss-worker")
    """Where pipelines that are files have their data."""


class Instance:
    """Runs until it is stopped or its lease is lost. Whatever fails is reported and tried again with backoff."""

    def __init__(self, around: Surroundings, owner: Owner, held: HeldLease | None, wanted: Wanted) -> None:
        self.owner, self.held, self.wanted = owner, held, wanted
        """`wanted` is replaced by the worker when the pipeline changes; it is looked at between batches."""
        self._around = around
        self._configs = PipelineConfigs(around.store, owner.pipeline_id)
        self._stopping = threading.Event()
        self._claims: dict[int, Claim] = {}
        self._shown = ("", "")
        name = f"{owner.pipeline_id[:8]}/{owner.slot}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks it to commit what is in hand and to end."""
        self._stopping.set()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return self.is_done

    @property
    def _is_over(self) -> bool:
        return self._stopping.is_set() or (self.held is not None and self.held.is_lost)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._is_over:
            began = time.monotonic()
            try:
                self._serve()
            except Fenced as error:  # a partition moved, or the lease is gone: join the group anew
                self._report("waiting", error.message)
            except GaussError as error:
                self._report("failing", error.message)
            except Exception as error:
                log.exception("the pipeline failed", extra=about(self.owner.pipeline_id, self.owner.slot))
                self._report("failing", f"unexpected: {type(error).__name__}: {error}")
            pause = FIRST_PAUSE if time.monotonic() - began > 60 else min(pause * 2, LONGEST_PAUSE)
            self._wait(pause)

    def _wait(self, seconds: float) -> None:
        """Waits without losing the lease, and not longer than until the config changes."""
        version, deadline = self.wanted.version, time.monotonic() + seconds
        while not self._is_over and time.monotonic() < deadline and self.wanted.version == version:
            self._beat()
            self._stopping.wait(0.1)

    def _beat(self) -> None:
        if self.held is not None:
            self.held.beat()

    def _report(self, state: str, reason: str) -> None:
        if self.owner.lease is None or (state, reason) == self._shown:
            return
        with contextlib.suppress(GaussError):  # told again when it changes
            self._around.store.leases.report(self.owner.worker_id, self.owner.lease, state, reason[:2_000])
            self._shown = (state, reason)
            line = f"{state}: {reason}" if reason else state
            log.info("%s", line, extra=about(self.owner.pipeline_id, self.owner.slot))

    def _serve(self) -> None:
        """One membership of the group; ends when the Kafka part of the config changes, or when the lease has expired: a
        member that may commit nothing would keep partitions from those that may."""
        if self.held is not None and self.held.is_expired:
            raise Unavailable("the lease was not renewed in time", hint="it is renewed once the store answers")
        self._around.store.pipelines.get(self.owner.pipeline_id)  # without a store there is nothing to join for
        config = self._configs.at(self.wanted.version)
        cluster = self._around.clusters.of(config.kafka.settings())
        topic = cluster.admin.describe(config.kafka.topic)
        member = _Member(config.kafka, config.kafka.group_of(self.owner.pipeline_id), self._around.ttl_ms)
        session = _Session(self, config, topic.topic_id, cluster.admin)
        waiting: list[int] = []
        """Partitions that were assigned and not yet claimed."""
        try:
            while not self._is_over:
                self._beat()
                given, taken = member.poll()
                waiting = [*(each for each in waiting if each not in taken), *given]
                if taken:
                    session.drop(taken)
                if self.held is not None and not self.held.is_usable:
                    if self.held.is_expired:
                        return
                    continue
                session.take(waiting)
                waiting = []
                session.step(member)
                if self.wanted.version != session.config.version:
                    newer = self._configs.at(self.wanted.version)
                    if newer.kafka != session.config.kafka:
                        return
                    session.use(newer)
        finally:
            member.close()  # first, because the store may not answer for long
            session.close()


class _Member:
    """A paused member of a consumer group: Kafka assigns partitions to it, and Spark's tasks read them."""

    def __init__(self, kafka: KafkaConfig, group: str, ttl_ms: int) -> None:
        self._topic = kafka.topic
        self._given: list[int] = []
        self._taken: list[int] = []
        conf: dict[str, Any] = {
            **client_conf(kafka.settings()),
            "group.id": group,
            "session.timeout.ms": ttl_ms,
            "heartbeat.interval.ms": max(ttl_ms // 10, 500),
            "max.poll.interval.ms": max(ttl_ms, 300_000),
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
        with sorted_errors(f"group {group}"):
            self._consumer = Consumer(conf)
            gone = self._on_revoke
            self._consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=gone, on_lost=gone)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign([TopicPartition(each.topic, each.partition, 0) for each in partitions])
        consumer.pause(partitions)
        self._given += [each.partition for each in partitions]

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """No range is in hand here: the thread that polls is the one that commits."""
        with contextlib.suppress(KafkaException):
            consumer.incremental_unassign(partitions)
        gone = {each.partition for each in partitions}
        self._given = [each for each in self._given if each not in gone]
        self._taken += gone

    def poll(self) -> tuple[list[int], list[int]]:
        """The partitions that were assigned and revoked since the last call."""
        found = self._consumer.poll(POLL_SECONDS)
        if found is not None and (error := found.error()) is not None and error.fatal():
            raise KafkaException(error)
        given, taken, self._given, self._taken = self._given, self._taken, [], []
        return given, taken

    def commit(self, offsets: dict[int, int]) -> None:
        """Shows tools how far the pipeline is. The store has the truth, so a failure does no harm."""
        with contextlib.suppress(KafkaException):
            wanted = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
            self._consumer.commit(offsets=wanted, asynchronous=True)

    def close(self) -> None:
        with contextlib.suppress(KafkaException):
            self._consumer.close()


class _Session:
    """The partitions of an instance while it is a member."""

    def __init__(self, instance: Instance, config: PipelineConfig, topic_id: str, admin: Admin) -> None:
        self.config = config
        self._instance = instance
        self._around = instance._around
        self._owner = instance.owner
        self._topic_id = topic_id
        self._admin = admin
        self._claims: dict[int, Claim] = {}
        self._unclear: set[int] = set()
        """Partitions whose pending range was tried before, by us or an earlier owner."""
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
        self._pause, self._try_at = FIRST_PAUSE, 0.0

    def use(self, config: PipelineConfig) -> None:
        """Applies an edit. It may correct what failed, so it is tried at once."""
        self.config = config
        self._pause, self._try_at = FIRST_PAUSE, 0.0

    def take(self, partitions: list[int]) -> None:
        """Claims partitions that Kafka has assigned."""
        if not partitions:
            return
        topic, claims = self.config.kafka.topic, self._around.store.claims
        new = claims.missing(self._owner.pipeline_id, topic, self._topic_id, partitions)
        starts = start_offsets(self._admin, self.config.kafka, new)
        for claim in claims.take(self._owner, topic, self._topic_id, partitions, starts):
            self._claims[claim.partition] = claim
            if claim.pending is not None:
                self._unclear.add(claim.partition)

    def drop(self, partitions: list[int]) -> None:
        """Gives up partitions that Kafka has revoked. A pending range is settled by the next owner."""
        gone = [self._claims.pop(each) for each in partitions if each in self._claims]
        for each in gone:
            self._reported.pop(each.partition, None)
        if gone:
            self._around.store.claims.release(self._owner, gone)

    def close(self) -> None:
        with contextlib.suppress(GaussError):  # the next owner takes them anyway
            self.drop(list(self._claims))

    def step(self, member: _Member) -> None:
        """Inserts and commits what is due."""
        if not self._claims or time.monotonic() < self._try_at:
            return
        self._look()
        if not (works := self._works()):
            if not self._unclear:
                self._instance._report("running", "")
            return
        results = self._around.runner.run(self._owner.pipeline_id, works)
        if works[0].is_check:
            failures = [result.error for result in results if isinstance(result, Failure)]
            self._checked = 0 if failures else works[0].config.version
            self._back_off(failures)
            return
        self._commit(works, results, member)

    def _commit(self, works: Sequence[RangeWork], results: Sequence[RangeResult | Failure], member: _Member) -> None:
        outcomes, failures = [], []
        for work, result in zip(works, results, strict=True):
            claim = self._claims[work.range.partition]
            if isinstance(result, Failure):
                self._unclear.add(claim.partition)
                failures.append(result.error)
            else:
                self._newest_ms[claim.partition] = result.newest_ms or self._newest_ms.get(claim.partition, 0)
                outcomes.append(Outcome(claim, result.rows, result.bytes, result.letters, result.took_ms))
        if outcomes:
            for claim in self._around.store.claims.advance(self._owner, outcomes):
                self._claims[claim.partition] = claim
                self._unclear.discard(claim.partition)
                self._since.pop(claim.partition, None)
            self._rate.add(sum(each.rows for each in outcomes))
            member.commit({each.claim.partition: self._claims[each.claim.partition].next_offset for each in outcomes})
        self._back_off(failures)

    def _back_off(self, failures: list[GaussError]) -> None:
        if not failures:
            self._pause = FIRST_PAUSE
            self._instance._report("running", "")
            return
        self._instance._report("failing" if isinstance(failures[0], ConfigError) else "waiting", failures[0].message)
        self._try_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _look(self) -> None:
        """The ends of the partitions, shown to users every few seconds."""
        cluster = self._around.clusters.of(self.config.kafka.settings())
        self._ends |= cluster.ends(self.config.kafka.topic, self._claims)
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
        """The ranges that are due, each with its intent in the store. Pending ones come first and alone. An intent is
        bound to a version of the config, so it is written only after the table was found to fit."""
        pending = [claim for claim in self._claims.values() if claim.pending is not None]
        if not pending and self._checked != self.config.version:
            claim = next(iter(self._claims.values()))
            nothing = Range(claim.topic, claim.partition, claim.next_offset, claim.next_offset, claim.topic_id)
            return [RangeWork(self.config, nothing, claim.inc, claim.epoch, False, 0.0)]
        if not pending:
            due = list(self._due())
            pending = self._around.store.claims.intend(self._owner, due) if due else []
            self._claims.update((claim.partition, claim) for claim in pending)
        return [self._work(claim) for claim in pending]

    def _due(self) -> Iterator[tuple[Claim, Intent]]:
        config, now = self.config.clickhouse, time.monotonic()
        if self._rate.is_exceeded(config.insert_rate_limit / max(self._instance.wanted.replicas, 1)):
            return
        most = min(config.batch_size, MOST_RANGE)
        for number, claim in self._claims.items():
            waiting = self._ends.get(number, 0) - claim.next_offset
            if waiting <= 0:
                continue
            since = self._since.setdefault(number, now)
            if waiting >= most or now - since >= config.flush_interval_ms / 1000:
                stop = claim.next_offset + min(waiting, most)
                yield claim, Intent(stop, self.config.version)

    def _work(self, claim: Claim) -> RangeWork:
        assert claim.pending is not None
        is_unclear = claim.partition in self._unclear
        pinned = self._instance._configs.at(claim.pending.version)
        held = self._instance.held
        wanted = Range(claim.topic, claim.partition, claim.next_offset, claim.pending.stop, claim.topic_id)
        return RangeWork(
            with_newest_connections(pinned, self.config),
            wanted,
            claim.inc,
            claim.epoch,
            is_unclear,
            self._around.ttl_ms / 1000 if is_unclear else 0.0,
            None if held is None else Deadline.of(held.stop_at),
        )


def start_offsets(admin: Admin, kafka: KafkaConfig, partitions: list[int]) -> dict[int, int]:
    """Where partitions start that were never read."""
    if not partitions:
        return {}
    first = admin.earliest(kafka.topic, partitions)
    match kafka.start_offset:
        case "latest":
            return admin.stable(kafka.topic, partitions)
        case datetime() as moment:
            ends = admin.stable(kafka.topic, partitions)
            found = admin.at_time(kafka.topic, partitions, int(moment.timestamp() * 1000))
            return {number: ends[number] if (at := found.get(number)) is None else at for number in partitions}
        case dict() as given:
            return {number: max(given.get(str(number), 0), first[number]) for number in partitions}
    return first
