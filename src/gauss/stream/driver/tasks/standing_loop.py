"""The loop of a standing task: claim, take an epoch, work, publish. It has no state beside the engine's ledger."""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack

import msgspec

from gauss.clients.engine.task_messages import Grant, Next, ProcessorFailure, TaskReport
from gauss.model.errors import Fenced, GaussError, ProtocolError, Rejected
from gauss.spark.standing import TaskLoop, TaskPlace
from gauss.stream.driver.planning.standing_plans import HostedPlan, Sizes, StandingPlan
from gauss.stream.driver.tasks.pace import Pace
from gauss.stream.driver.tasks.reading import engine, task

WAIT_MS = 30_000
MOST_LOST = 5
"""Number of consecutive lost epochs, such as by engine restarts, after which the task fails."""

log = logging.getLogger(__name__)


class Clock:
    """Measures how the time of an epoch is spent."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(("wait", "read", "work", "publish"), 0.0)
        self._since = time.monotonic()

    def lap(self, what: str) -> float:
        """Adds the time since the last lap to `what` and returns it."""
        now = time.monotonic()
        lasted, self._since = now - self._since, now
        self.spent[what] += lasted
        return lasted


class EpochLoop(ABC):
    """Base class of loops over epochs."""

    def __init__(self, flight: str, job: int, sizes: Sizes, place: TaskPlace) -> None:
        self.client = engine(flight)
        self.job, self.place = job, place
        self._sizes = sizes
        self._pace = Pace(sizes.target_ms, sizes.max_rows, sizes.min_rows)
        self.generations: dict[str, int] = {}
        """Generation of each claimed processor."""
        self._lost = 0
        self._epochs = 0
        self._report: TaskReport | None = None
        self._where = f"{socket.gethostname()}:{os.getpid()}"
        self._open = ExitStack()
        self._open.enter_context(task())

    def step(self) -> bool:
        """Runs one epoch, or waits for one until a timeout. Returns False if the job has to end or another has taken
        over."""
        try:
            if not self.generations:
                self.claim()
        except Fenced as error:
            log.info("task %d ends: %s", self.place.task, error.message)
            return False
        try:
            return self._step() and not self.is_over()
        except Fenced:
            self.generations = {}  # claim again: fenced by a user's command, or by another task's retry
        except (ProtocolError, Rejected) as error:
            # Stages and grants are lost with the engine: the epoch starts again at the ledger's end.
            self._lost += 1
            if self._lost > MOST_LOST:
                raise
            log.warning("task %d restarts its epoch: %s", self.place.task, error.message)
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
        if self._epochs == 2:  # everything is loaded: the garbage collector need not scan it again
            gc.collect()
            gc.freeze()
        return True

    def report_failure(self, name: str, error: BaseException, *, apart: bool = False) -> None:
        """Reports the failure of a processor to the engine."""
        why = error.message if isinstance(error, GaussError) else f"{error} ({type(error).__name__})"
        self.client.report_failure(ProcessorFailure(name, self.generations[name], why, apart))

    @abstractmethod
    def claim(self) -> None:
        """Fills `generations`; raises Fenced if a later job or attempt has taken over."""

    @abstractmethod
    def work(self, grants: dict[str, Grant], clock: Clock) -> None:
        """Runs an epoch and publishes it."""

    def is_over(self) -> bool:
        """Whether no processor is left."""
        return False

    def drop(self, name: str, why: str) -> None:
        """Removes a processor from the task."""
        log.info("task %d continues without %s: %s", self.place.task, name, why)
        self.generations.pop(name, None)

    def close(self) -> None:
        self._open.close()


def make_loop(plan: bytes, place: TaskPlace) -> TaskLoop:
    """The loop of a plan, which is a StandingPlan as JSON."""
    found: StandingPlan = msgspec.json.decode(plan, type=StandingPlan)
    if isinstance(found, HostedPlan):
        from gauss.stream.driver.tasks.hosted_loop import HostedLoop

        return HostedLoop(found, place)
    from gauss.stream.driver.tasks.table_loop import TableLoop

    return TableLoop(found, place)
