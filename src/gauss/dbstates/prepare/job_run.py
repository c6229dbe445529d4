"""One run of a job: resolve, plan, look up, execute, snapshot, instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gauss.dbstates.instances.manager import Instance, Origin
from gauss.dbstates.instances.warm_pool import WarmPool
from gauss.dbstates.prepare.bases import Bases
from gauss.dbstates.prepare.chain import Link
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.executor import Executor
from gauss.dbstates.prepare.explain import Explainer
from gauss.dbstates.prepare.inputs import LockedInputs
from gauss.dbstates.prepare.planner import Planned, Planner
from gauss.dbstates.prepare.requests import PrepareRequest
from gauss.dbstates.prepare.state_lock import locked
from gauss.model.errors import DiskFull, StorageError


@dataclass(frozen=True)
class JobParts:
    """What all runs share."""

    context: Context
    planner: Planner
    explainer: Explainer
    executor: Executor
    bases: Bases
    pool: WarmPool
    make_room: Callable[[], None]


class JobRun:
    """Runs one job in one thread. Raises the error that the job fails with."""

    def __init__(self, parts: JobParts, job: str, request: PrepareRequest, control: JobControl) -> None:
        self._parts, self._job, self._request, self._control = parts, job, request, control
        self._context, self._jobs = parts.context, parts.context.jobs
        self._instances = parts.context.instances
        self._runtime = parts.planner.runtime(request)
        self._inputs = LockedInputs()

    def run(self, env: Mapping[str, str], recovered: list[str] | None) -> dict[str, Any]:
        """Returns the result of the job. `recovered` has the states that an interrupted run had planned."""
        with self._inputs:
            planned = self._plan(env, recovered)
            self._control.check()
            with self._context.cache.pinned(planned.ids):
                return self._follow(planned)

    @contextmanager
    def _task(self, number: int) -> Iterator[None]:
        self._jobs.task(self._job, number, status="running")
        yield  # a failure ends the job, and that the task
        self._jobs.task(self._job, number, status="succeeded")

    def _plan(self, env: Mapping[str, str], recovered: list[str] | None) -> Planned:
        image = self._parts.planner.image(self._request)
        if self._runtime.has_digest(image):
            build = self._runtime.resolve(image)
        else:
            with self._task(self._jobs.add_task(self._job, "resolve_image", f"resolve {image}")):
                build = self._runtime.resolve(image)
        with self._task(self._jobs.add_task(self._job, "plan", f"plan {self._request.prepare_kind}")):
            with self._context.metrics.timed("planning"):
                planned = self._parts.planner.plan(self._request, build, env, self._inputs)
            if recovered and recovered != planned.ids:
                raise StorageError(
                    "the job was interrupted, and its files or its environment have changed since",
                    hint="prepare it again",
                )
        return planned

    def _follow(self, planned: Planned) -> dict[str, Any]:
        """Executes what is not cached, and makes the instance."""
        done = self._context.cache.deepest(planned.ids)
        self._context.metrics.count("cache_hits_total", int(done == len(planned.chain)))
        self._context.metrics.count("cache_misses_total", len(planned.chain) - done)
        if done < len(planned.chain):
            self._tell_miss(planned, done)
        tasks = [
            self._jobs.add_task(self._job, "state_execute", link.step.title, state=link.place.id, cached=number <= done)
            for number, link in enumerate(planned.chain, 1)
        ]
        state = planned.ids[-1]
        last = self._jobs.add_task(self._job, "prepare_instance", "prepare the instance", state=state)
        if self._request.plan_only:
            return {"state_id": state, "instance_id": None, "tasks": self._jobs.tasks(self._job)}
        working: Instance | None = None
        try:
            if done < len(planned.chain):
                self._parts.make_room()
                working = self._execute(planned, tasks, done)
            with self._task(last):
                self._control.check()
                instance = self._hand_out(planned, working)
                if self._request.held_by:
                    self._instances.hold(instance, self._request.held_by)
        except BaseException:
            if working is not None:
                self._instances.remove(working.id)
            raise
        self._context.audit.note("instance_created", instance_id=instance, state_id=state, job_id=self._job)
        return {"state_id": state, "instance_id": instance, "tasks": self._jobs.tasks(self._job)}

    def _tell_miss(self, planned: Planned, done: int) -> None:
        """Notes why the first missing step is not cached: once it is, nothing can tell."""
        found = self._parts.explainer.reason(planned.chain[done])
        nearest = planned.ids[done - 1] if done else None
        miss = {"number": done + 1, "nearest_state_id": nearest, **found}
        self._jobs.log(self._job, f"not cached: {found['reason']}", miss=miss)

    def _execute(self, planned: Planned, tasks: list[int], done: int) -> Instance | None:
        """Makes the missing states one by one; returns the instance on which the last one was made. None if another
        job made that."""
        working: Instance | None = None
        try:
            for number in range(done, len(planned.chain)):
                link = planned.chain[number]
                self._control.check()
                self._jobs.task(self._job, tasks[number], status="running")
                with locked(self._context.layout.state_lock(link.place.id), self._control):
                    elsewhere = self._context.states.is_ready(link.place.id)
                    if elsewhere:
                        if working is not None:
                            self._instances.remove(working.id)
                        working = None
                    else:
                        working = working or self._working(planned, number)
                        self._step(planned, link, working)
                self._jobs.task(self._job, tasks[number], status="succeeded", cached=elsewhere)
        except BaseException:
            if working is not None:
                self._instances.remove(working.id)
            raise
        return working

    def _step(self, planned: Planned, link: Link, working: Instance) -> None:
        """Executes one step and stores its state."""
        self._inputs.check(link.step.inputs)
        self._parts.executor.run(self._job, planned.adapter, link.step, working, self._control)
        self._inputs.check(link.step.inputs)
        self._control.check()
        try:
            self._parts.executor.store(self._job, link, working, last=link is planned.chain[-1])
        except DiskFull:
            self._parts.make_room()
            raise

    def _working(self, planned: Planned, number: int) -> Instance:
        """An instance with the state before a step."""
        source = self._parts.bases.ensure(planned.build, self._runtime, self._control)
        state = planned.build.base
        if number:
            place = planned.chain[number - 1].place
            source, state = self._context.cache.path(place), place.id
        self._jobs.log(self._job, "server start")
        return self._instances.start(planned.build, source, Origin(state, self._job))

    def _hand_out(self, planned: Planned, working: Instance | None) -> str:
        """The instance of the job: the one that made the last state, a warm one, or a new one."""
        place = planned.chain[-1].place
        if working is not None:
            self._instances.hand_out(working.id, place.id, self._job)
            return working.id
        self._context.states.hit(place.id)
        source = self._context.cache.path(place)
        if (warm := self._parts.pool.take(place.id, planned.build, source, self._job)) is not None:
            self._jobs.log(self._job, "instance taken from the warm pool")
            return warm
        self._jobs.log(self._job, "server start")
        made = self._instances.start(planned.build, source, Origin(place.id, self._job))
        self._instances.hand_out(made.id, place.id, self._job)
        return made.id
