"""Standing jobs in the driver: each does the work of some processors, and is started again when it fails."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from functools import partial
from typing import Any

import msgspec

from gauss.spark.standing import StandingJob
from gauss.stream.driver.plan import StandingPlan
from gauss.stream.driver.standing import make_loop
from gauss.stream.driver.supervised import Context, State, Supervised
from gauss.stream.protocol import News, QueryStatus

LOOK_S, STEADY_LOOK_S = 1.0, 2.5
"""How often Spark is asked for a job that starts, and for one whose tasks were heard of."""
GRACE_S = 3.0
"""So long a job may take to end after the epoch it is in; what is left then is fenced, and Spark kills it."""
GROW_S, SHRINK_S = 2.0, 15.0
"""How long a unit lags before it gets another task, and how long it does not before it loses one."""
SLOT_S = 12.0
"""So long after a start no task has claimed anything: Spark's own count of running tasks is 10 s old at times."""
NO_SLOT = "waits for Spark"
LOADING = "loading table"

log = logging.getLogger(__name__)


class StandingUnit(Supervised):
    """A standing job; a second and further tasks of it come while it lags."""

    runs = "hosted"

    def __init__(self, context: Context, name: str, tasks: int | None, cores: int) -> None:
        """`tasks`: as the config asks; None: from one up to as many as there are cores."""
        super().__init__(context, name)
        self._tasks, self._most = tasks or 1, tasks or cores
        self._jobs: list[StandingJob] = []
        self._number = 0
        self._next_look = 0.0
        self._started_at = 0.0
        self._placed = False
        self._begun = 0
        """Epochs that were published when it was started."""
        self._news: dict[str, News] = {}
        self._lags_since: float | None = None
        self._rests_since: float | None = None
        self._ending: StandingJob | None = None

    @abstractmethod
    def plan(self, job: int) -> StandingPlan | None:
        """What its tasks do; None: not yet, and `began` has said why."""

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
            self.fail(errors[0] if errors else "the job ended by itself")
        elif not self._placed and not self.failures and now - self._started_at > SLOT_S:
            self._look_for_slots()

    def _look_for_slots(self) -> None:
        """A task without a slot is no failure, but a person must know."""
        running, wanted = sum(job.running_tasks() for job in self._jobs), sum(job.tasks for job in self._jobs)
        self.detail = f"{NO_SLOT}: {running} of its {wanted} tasks have a slot, other tasks hold the rest"

    def hear(self, news: dict[str, News]) -> None:
        """What the engine says of its processors."""
        told = {name: news[name] for name in self.names if name in news}
        self._news = {name: each for name, each in told.items() if each.job == self._number}  # else of a job before
        if not self._jobs or not self._news:
            return
        if not self._placed:  # a task has claimed them
            self._placed = True
            self.detail = "" if self.detail.startswith(NO_SLOT) else self.detail
        published = sum(each.published for each in self._news.values())
        self._begun = min(self._begun, published)  # the engine counts anew after a restart
        if published > self._begun and (self.failures or self.detail.startswith(LOADING)):
            self.forget_failures()
            self.detail = ""
        if self.is_stalled():
            self._end(grace_s=0)
            self.fail(f"no epoch has passed for {self._stall_s:.0f} s")
        else:
            self._adapt(time.monotonic())

    @property
    def _stall_s(self) -> float:
        return self.context.pipeline.spark.stall_after / 1000

    def is_stalled(self) -> bool:
        """Whether an epoch is under way for too long."""
        return max(each.under_way_s for each in self._news.values()) > self._stall_s

    def _adapt(self, now: float) -> None:
        """Gives it another task while it lags, takes one when it does not."""
        lags = any(each.behind > 2 * each.rows > 0 for each in self._news.values())
        self._lags_since = (self._lags_since or now) if lags else None
        self._rests_since = (self._rests_since or now) if not lags else None
        if self._ending is not None:
            return
        tasks = sum(job.tasks for job in self._jobs)
        if self._lags_since is not None and now - self._lags_since > GROW_S and tasks < self._most:
            self._ask("end", job=self._number, keep=tasks + 1)  # one that was told to end before may come back
            self._jobs.append(self._job(1, tasks))
            self._lags_since = None
            log.info("%s lags: %d tasks", self.name, tasks + 1)
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
        self.state = State.STARTING

    def statuses(self) -> list[QueryStatus]:
        return [self.status(self.runs, name) for name in self.names]
