"""An instance of a pipeline: a thread that is a member of the group again and again."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import NamedTuple

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.keeper import HeldLease
from gauss.fleet.leases.owner import Owner
from gauss.fleet.leases.slots import Wanted
from gauss.fleet.logs import about
from gauss.fleet.worker.configs import PipelineConfigs
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.member import GroupMember
from gauss.fleet.worker.runner import Runner
from gauss.fleet.worker.session import FIRST_PAUSE, LONGEST_PAUSE, Session
from gauss.model.errors import Fenced, GaussError, Unavailable

MOST_REASON = 2_000
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
        self.around = around
        self.configs = PipelineConfigs(around.store, owner.pipeline_id)
        self._stopping = threading.Event()
        self.shown = ("", "")
        """Its state and the reason."""
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
                self.report("waiting", error.message)
            except GaussError as error:
                self.report("failing", error.message)
            except Exception as error:
                log.exception("the pipeline failed", extra=about(self.owner.pipeline_id, self.owner.slot))
                self.report("failing", f"unexpected: {type(error).__name__}: {error}")
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

    def report(self, state: str, reason: str) -> None:
        """Tells what it does. Without a lease the worker tells it for all of its instances."""
        shown = (state, reason[:MOST_REASON])
        if shown == self.shown:
            return
        if self.owner.lease is not None:
            try:
                self.around.store.leases.report(self.owner.worker_id, self.owner.lease, *shown)
            except GaussError:  # told again when it changes
                return
        self.shown = shown
        line = f"{state}: {reason}" if reason else state
        log.info("%s", line, extra=about(self.owner.pipeline_id, self.owner.slot))

    def _serve(self) -> None:
        """One membership of the group; ends when the Kafka part of the config changes, or when the lease has expired: a
        member that may commit nothing would keep partitions from those that may."""
        if self.held is not None and self.held.is_expired:
            raise Unavailable("the lease was not renewed in time", hint="it is renewed once the store answers")
        self.around.store.pipelines.get(self.owner.pipeline_id)  # without a store there is nothing to join for
        config = self.configs.at(self.wanted.version)
        cluster = self.around.clusters.of(config.kafka.settings())
        topic = cluster.admin.describe(config.kafka.topic)
        member = GroupMember(config.kafka, config.kafka.group_of(self.owner.pipeline_id), self.around.ttl_ms)
        session = Session(self, config, topic)
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
                    newer = self.configs.at(self.wanted.version)
                    if newer.kafka != session.config.kafka:
                        return
                    session.use(newer)
        finally:
            member.close()  # first, because the store may not answer for long
            session.close()
