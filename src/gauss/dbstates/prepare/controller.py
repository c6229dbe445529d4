"""The queue of prepare jobs: stored, run, cancelled, recovered, forgotten."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from gauss.dbstates.holder import check_holder
from gauss.dbstates.instances.warm_pool import WarmPool
from gauss.dbstates.prepare.bases import Bases
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.executor import Executor
from gauss.dbstates.prepare.explain import Explainer
from gauss.dbstates.prepare.job_run import JobParts, JobRun
from gauss.dbstates.prepare.planner import Planner
from gauss.dbstates.prepare.requests import PrepareRequest
from gauss.dbstates.repeating import Repeating
from gauss.dbstates.store.jobs import TERMINAL
from gauss.dbstates.store.metadata import now_ms
from gauss.model.errors import GaussError, NotFound, StorageError

THREADS = 256
SLOT_SECONDS = 0.02
PAUSE_SECONDS = 1.0
"""How often surplus jobs are looked for."""
log = logging.getLogger("gauss.dbstates")


class PrepareController:
    """The queue of jobs and the threads that run them."""

    def __init__(self, context: Context, bases: Bases, pool: WarmPool, make_room: Callable[[], None]) -> None:
        """`make_room` evicts states when the store is too full."""
        self._context, self._jobs = context, context.jobs
        self.planner = Planner(context)
        self.explainer = Explainer(context, self.planner)
        self._parts = JobParts(context, self.planner, self.explainer, Executor(context), bases, pool, make_room)
        self._controls: dict[str, JobControl] = {}
        self._running = 0
        self._running_lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="job")
        self._trimming = Repeating("jobs", PAUSE_SECONDS, self.trim)

    # --- the queue ---

    def submit(self, request: PrepareRequest) -> str:
        """Stores a job and queues it; returns its id."""
        check_holder(request.held_by)
        job = secrets.token_hex(16)
        self._jobs.add(job, request.signature, request.stored())
        self._context.audit.note("job_created", job_id=job, prepare_kind=request.prepare_kind, cwd=request.cwd)
        self._queue(job, request, request.env, request.deadline_secs)
        return job

    def recover(self) -> None:
        """Queues the jobs again that an earlier engine did not end. Their environment is that of this engine."""
        self._trimming.start()
        for job in self._jobs.open():
            planned = [row["state_id"] for row in self._jobs.tasks(job) if row["type"] == "state_execute"]
            self._jobs.drop_tasks(job)
            self._context.instances.remove_of_job(job)  # no client was told of it
            try:
                request = PrepareRequest.model_validate(self._jobs.request(job))
            except ValueError:
                error = StorageError("the request of the job is lost", hint="prepare it again")
                self._jobs.fail(job, error)
                continue
            self._jobs.event(job, "status", status="queued", recovered=True)
            left = request.deadline_secs
            if left is not None and (started := self._jobs.get(job)["started_ms"]) is not None:
                left = max(left - max(now_ms() - started, 0) / 1000, 0.001)
            self._queue(job, request, dict(os.environ), left, planned)

    def _queue(
        self,
        job: str,
        request: PrepareRequest,
        env: Mapping[str, str],
        deadline: float | None,
        planned: list[str] | None = None,
    ) -> None:
        self._controls[job] = JobControl(deadline, request.held_by)
        self._threads.submit(self._run, job, request, env, planned)

    def cancel(self, job: str) -> bool:
        """Asks a job to end; False if it has ended."""
        if self._jobs.status(job) in TERMINAL:
            return False
        control = self._controls.get(job)
        if control is not None:
            control.cancel()
        return True

    def active(self) -> list[str]:
        return list(self._controls)

    def wait(self, job: str, seconds: float) -> None:
        """Waits until a job has ended."""
        deadline = time.monotonic() + seconds
        while job in self._controls and time.monotonic() < deadline:
            time.sleep(0.01)

    def stop(self) -> None:
        """Ends all jobs as cancelled."""
        self._trimming.stop()
        for control in list(self._controls.values()):
            control.cancel()
        self._threads.shutdown(wait=True)

    # --- one job ---

    def _run(self, job: str, request: PrepareRequest, env: Mapping[str, str], planned: list[str] | None) -> None:
        control = self._controls[job]
        try:
            with self._slot(control):
                self._jobs.start(job)
                result = JobRun(self._parts, job, request, control).run(env, planned)
            self._jobs.succeed(job, result)
        except GaussError as error:
            self._fail(job, error)
        except Exception as error:
            log.exception("job %s failed", job)
            self._fail(job, GaussError(f"unexpected {type(error).__name__}: {error}", hint="see engine.log"))
        finally:
            self._end(job)

    def _fail(self, job: str, error: GaussError) -> None:
        """Removes what a job has made, and stores that it has failed as soon as that is possible: its watchers wait for
        it."""
        while True:
            try:
                self._context.instances.remove_of_job(job)
                self._jobs.fail(job, error)
                return
            except NotFound:  # it was removed while it ran
                return
            except GaussError as full:
                log.warning("the end of job %s is not stored yet: %s", job, full.message)
                if self._trimming.stopped.wait(PAUSE_SECONDS):
                    return  # the next engine runs it again

    @contextmanager
    def _slot(self, control: JobControl) -> Iterator[None]:
        while not self._begins():
            control.wait(SLOT_SECONDS)
        try:
            control.check()
            yield
        finally:
            with self._running_lock:
                self._running -= 1

    def _begins(self) -> bool:
        with self._running_lock:
            begins = self._running < self._context.settings().orchestrator.parallel
            self._running += begins
            return begins

    def _end(self, job: str) -> None:
        try:
            status = self._jobs.status(job) if self._jobs.exists(job) else "removed"
            self._context.metrics.count("jobs_total", status=status)
            self._context.audit.note("job_ended", job_id=job, status=status)
        except GaussError:
            log.exception("the end of job %s", job)
        finally:
            self._controls.pop(job, None)

    def trim(self) -> None:
        """Removes ended jobs beyond the newest of those that are identical."""
        for old in self._jobs.surplus(self._context.settings().orchestrator.jobs.maxIdentical):
            self.forget(old)

    def forget(self, job: str) -> None:
        """Removes an ended job and its folder."""
        self._jobs.remove(job)
        shutil.rmtree(self._context.layout.job(job), ignore_errors=True)
