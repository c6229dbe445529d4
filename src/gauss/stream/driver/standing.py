"""The loop of a standing task: claim, take an epoch, work, publish. The ledger at the engine is its only memory."""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack

import msgspec

from gauss.model.errors import Fenced, GaussError, ProtocolError, Rejected
from gauss.spark.standing import Loop, Place
from gauss.stream.driver.pace import Pace
from gauss.stream.driver.plan import HostedPlan, Sizes, StandingPlan
from gauss.stream.driver.reading import engine, task
from gauss.stream.protocol import Grant, Next, TaskReport, Trouble

WAIT_MS = 30_000
MOST_LOST = 5
"""So often in a row an epoch may be lost, as by an engine that restarts, before its task fails."""

log = logging.getLogger(__name__)


class Clock:
    """Where the time of an epoch goes."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(("wait", "read", "work", "publish"), 0.0)
        self._since = time.monotonic()

    def lap(self, what: str) -> float:
        """Counts the time since the last lap; gives it."""
        now = time.monotonic()
        lasted, self._since = now - self._since, now
        self.spent[what] += lasted
        return lasted


class EpochLoop(ABC):
    """What loops over epochs share."""

    def __init__(self, flight: str, job: int, sizes: Sizes, place: Place) -> None:
        self.client = engine(flight)
        self.job, self.place = job, place
        self._sizes = sizes
        self._pace = Pace(sizes.target_ms, sizes.max_rows, sizes.min_rows)
        self.generations: dict[str, int] = {}
        """The claimed processors."""
        self._lost = 0
        self._epochs = 0
        self._report: TaskReport | None = None
        self._where = f"{socket.gethostname()}:{os.getpid()}"
        self._open = ExitStack()
        self._open.enter_context(task())

    def step(self) -> bool:
        """One epoch, or a wait for one that was in vain. False: the job is asked to end, or another has taken over."""
        try:
            if not self.generations:
                self.claim()
        except Fenced as error:
            log.info("task %d ends: %s", self.place.task, error.message)
            return False
        try:
            return self._step() and not self.is_over()
        except Fenced:
            self.generations = {}  # claimed anew: by a person's word, or with another task that was tried again
        except (ProtocolError, Rejected) as error:
            # Stages and grants die with an engine: the epoch is lost, and begins anew at the ledger's end.
            self._lost += 1
            if self._lost > MOST_LOST:
                raise
            log.warning("task %d begins its epoch anew: %s", self.place.task, error.message)
            self.generations = {}
        return True

    def _step(self) -> bool:
        clock, sizes = Clock(), self._sizes
        asked = Next(
            dict(self.generations),
            min(self._pace.rows, sizes.max_rows),
            sizes.max_bytes,
            WAIT_MS,
            sizes.min_rows,
            sizes.flush_ms,
            self.job,
            self.place.task,
            self._report,
        )
        granted = self.client.next(asked)
        self._report = None
        if granted.stop:
            return False
        for name, why in granted.apart.items():
            self.drop(name, why)
        clock.lap("wait")
        if not granted.grants:
            return True
        self._pace.given(time.monotonic(), granted.rows, granted.lag)
        self.work(granted.grants, clock)
        self._pace.asked(time.monotonic())
        self._lost = 0
        spent = {f"{name}_ms": seconds * 1000 for name, seconds in clock.spent.items()}
        self._report = TaskReport(rows=granted.rows, attempt=self.place.attempt, where=self._where, **spent)
        self._epochs += 1
        if self._epochs == 2:  # all is loaded: the collector need not look through it again
            gc.collect()
            gc.freeze()
        return True

    def trouble(self, name: str, error: BaseException, *, apart: bool = False) -> None:
        """Tells what a processor failed at."""
        why = error.message if isinstance(error, GaussError) else f"{error} ({type(error).__name__})"
        self.client.trouble(Trouble(name, self.generations[name], why, apart))

    @abstractmethod
    def claim(self) -> None:
        """Fills `generations`; raises Fenced if a later job or attempt has taken over."""

    @abstractmethod
    def work(self, grants: dict[str, Grant], clock: Clock) -> None:
        """Does an epoch and publishes it."""

    def is_over(self) -> bool:
        """Whether nobody is left to work for."""
        return False

    def drop(self, name: str, why: str) -> None:
        """Goes on without a processor."""
        log.info("task %d goes on without %s: %s", self.place.task, name, why)
        self.generations.pop(name, None)

    def close(self) -> None:
        self._open.close()


def make_loop(plan: bytes, place: Place) -> Loop:
    """The loop of a plan, which is a StandingPlan as JSON."""
    found: StandingPlan = msgspec.json.decode(plan, type=StandingPlan)
    if isinstance(found, HostedPlan):
        from gauss.stream.driver.hosted_loop import HostedLoop

        return HostedLoop(found, place)
    from gauss.stream.driver.table_loop import TableLoop

    return TableLoop(found, place)
