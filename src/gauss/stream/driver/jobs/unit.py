"""Standing jobs in the driver: each runs the work of some processors and is restarted when it fails."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from functools import partial
from typing import Any

import msgspec

from gauss.clients.engine.driver_messages import QueryStatus, StandingProgress
from gauss.spark.standing import StandingJob
from gauss.stream.driver.planning.standing_plans import StandingPlan
from gauss.stream.driver.supervised import Context, Supervised, WorkState
from gauss.stream.driver.tasks.standing_loop import make_loop

LOOK_S, STEADY_LOOK_S = 1.0, 2.5
"""Interval at which Spark is asked about a job: while it starts, and after its tasks have reported."""
GRACE_S = 3.0
"""Time for a job to stop after its current epoch; after that its tasks are fenced and Spark kills them."""
GROW_S, SHRINK_S = 2.0, 15.0
"""How long a unit lags before it gets another task, and how long it keeps up before it loses one."""
SLOT_S = 12.0
"""Time after a start to wait for a claim before slots are checked: Spark's count of running tasks can be 10 s old."""
IDLE_S = 2.0
"""How long a restarted job has to run without records until its failures are forgotten, as nothing is left to fail."""
NO_SLOT = "waits for Spark"
LOADING = "loading table"

log = logging.getLogger(__name__)


class StandingUnit(Supervised):
    """A standing job that gets more tasks while it lags."""

    runs = "hosted"

    def __init__(self, context: Context, name: str, tasks: int | None, cores: int) -> None:
        """`tasks`: the configured number; None: from one up to the number of cores."""
        super().__init__(context, name)
        self._tasks, self._most = tasks or 1, tasks or cores
        self._jobs: list[StandingJob] = []
        self._number = 0
        self._next_look = 0.0
        self._started_at = 0.0
        self._placed = False
        self._begun = 0
        """Number of epochs that were published when it was started."""
        self._news: dict[str, StandingProgress] = {}
        self._lags_since: float | None = None
        self._rests_since: float | None = None
        self._ending: StandingJob | None = None

    @abstractmethod
    def plan(self, job: int) -> StandingPlan | None:
        """The plan of its tasks; None if it cannot be made yet, which `began` has reported."""

    @property
    def is_started(self) -> bool:
        return bool(self._jobs)

    def start(self) -> None:
        self._number = int(self._ask("job")["job"])
        plan = self.plan(self._number)
        if plan is None:
            self._next_try = time.monotonic() + LOOK_S / 2
            return
        self._make = partial(make_loop, msgspec.json.encode(plan))
        self._begun, self._placed, self._started_at = self.epoch_reached(), False, time.monotonic()
        self._jobs = [self._job(self._tasks, 0)]
        self._next_look = time.monotonic() + LOOK_S
        self.began()

    def _job(self, tasks: int, first: int) -> StandingJob:
        return StandingJob(self.context.spark.context, self.name, self._make, tasks=tasks, first=first)

    def _ask(self, what: str, **args: Any) -> dict[str, Any]:
        return self.context.client.command(f"standing.{what}", args)

    # --- watching ---

    def watch(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + (STEADY_LOOK_S if self._placed else LOOK_S)
        over = [job for job in self._jobs if not job.is_active]
        if self._ending in over:
            over.remove(self._ending)
            self._jobs.remove(self._ending)
            self._ending = None
        if over:
            errors = [error for job in over if (error := job.error()) is not None]
            self._end(grace_s=0)
            self.fail(errors[0] if errors else "the job ended unexpectedly")
        elif not self._placed and not self.failures and now - self._started_at > SLOT_S:
            self._look_for_slots()

    def _look_for_slots(self) -> None:
        """Reports tasks without a slot in the status. This is no failure, but users have to see it."""
        running, wanted = sum(job.running_tasks() for job in self._jobs), sum(job.tasks for job in self._jobs)
        self.detail = f"{NO_SLOT}: {running} of its {wanted} tasks have a slot, the other slots are in use"

    def receive(self, news: dict[str, StandingProgress]) -> None:
        """Takes the engine's news of its processors."""
        own = {name: news[name] for name in self.names if name in news}
        self._news = {name: each for name, each in own.items() if each.job == self._number}  # others: an earlier job
        if not self._jobs or not self._news:
            return
        if not self._placed:  # a task has claimed them
            self._placed = True
            self.detail = "" if self.detail.startswith(NO_SLOT) else self.detail
        published = sum(each.published for each in self._news.values())
        self._begun = min(self._begun, published)  # a restarted engine counts from 0
        if published > self._begun:
            recovered = self.failures > 0 or self.detail.startswith(LOADING)
        else:
            recovered = self.failures > 0 and self._is_idle()
        if recovered:
            self.forget_failures()
            self.detail = ""
        if self.is_stalled():
            self._end(grace_s=0)
            self.fail(f"no epoch has passed for {self._stall_s:.0f} s")
        else:
            self._adapt(time.monotonic())

    def _is_idle(self) -> bool:
        """Whether its tasks have run for a while and there are no records for them."""
        waiting = any(each.behind or each.under_way_s for each in self._news.values())
        return not waiting and time.monotonic() - self._started_at > IDLE_S

    @property
    def _stall_s(self) -> float:
        return self.context.pipeline.spark.stall_after / 1000

    def is_stalled(self) -> bool:
        """Whether an epoch takes longer than the configured limit."""
        return max(each.under_way_s for each in self._news.values()) > self._stall_s

    def _adapt(self, now: float) -> None:
        """Adds a task while the unit lags and removes one while it keeps up."""
        lags = any(each.behind > 2 * each.rows > 0 for each in self._news.values())
        self._lags_since = (self._lags_since or now) if lags else None
        self._rests_since = (self._rests_since or now) if not lags else None
        if self._ending is not None:
            return
        tasks = sum(job.tasks for job in self._jobs)
        if self._lags_since is not None and now - self._lags_since > GROW_S and tasks < self._most:
            self._ask("end", job=self._number, keep=tasks + 1)  # a task that was told to end may stay
            self._jobs.append(self._job(1, tasks))
            self._lags_since = None
            log.info("%s lags: it now has %d tasks", self.name, tasks + 1)
        elif self._rests_since is not None and now - self._rests_since > SHRINK_S and len(self._jobs) > 1:
            self._ask("end", job=self._number, keep=tasks - 1)
            self._ending = self._jobs[-1]
            self._rests_since = None

    def epoch_reached(self) -> int:
        found = self._ask("news")["news"]
        return sum(int(found[name]["published"]) for name in self.names if name in found)

    # --- ending ---

    def stop(self) -> None:
        self._end(GRACE_S)

    def _end(self, grace_s: float) -> None:
        jobs, self._jobs, self._ending = self._jobs, [], None
        self._lags_since = self._rests_since = None
        if not jobs:
            return
        self._ask("end", job=self._number)
        deadline = time.monotonic() + grace_s
        for job in jobs:
            if not job.wait(max(deadline - time.monotonic(), 0)):
                job.cancel()

    def close(self) -> None:
        self.stop()
        self.state = WorkState.STARTING

    def statuses(self) -> list[QueryStatus]:
        return [self.status(self.runs, name) for name in self.names]
