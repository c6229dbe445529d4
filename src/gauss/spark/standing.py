"""Standing jobs: Spark jobs whose tasks run until their work is done or they are told to end.

Spark places the tasks, retries failed ones and notices lost executors; the loops decide what the tasks do and how they
are told to end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gauss.model.errors import traced

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOK_S = 0.02


class TaskPlace(NamedTuple):
    """The number of a task in its job, and of its attempt."""

    task: int
    attempt: int = 0


class TaskLoop(Protocol):
    """The work of a task."""

    def step(self) -> bool:
        """Does a piece of the work; False if there is no more."""
        ...

    def close(self) -> None:
        """Called once, also after a step that raised."""
        ...


Make = Callable[[TaskPlace], TaskLoop]
"""Makes the loop inside the task; sent to the executor, so it must be a function of a module that is installed there,
or a `functools.partial` of one."""


def _run(make: Make, first: int, index: int, _records: Iterable[Any]) -> Iterator[Any]:
    """The body of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    with traced():
        loop = make(TaskPlace(first + index, context.attemptNumber() if context is not None else 0))
        try:
            while loop.step():
                pass
        finally:
            loop.close()
    return iter(())


class StandingJob:
    """A job of some tasks. Its methods are thread-safe and, except `wait`, do not block."""

    def __init__(self, context: SparkContext, name: str, make: Make, *, tasks: int = 1, first: int = 0) -> None:
        """`first`: the number of its first task, where several jobs share one count."""
        self.name = name
        self.tasks = tasks
        self._context = context
        context.setJobDescription(name)
        try:
            work = context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(partial(_run, make, first))
            # Not `collect`, which would block a thread of this process as long as the job lasts.
            self._future = work._jrdd.collectAsync()
        finally:
            context.setJobDescription(None)  # type: ignore[arg-type]

    @property
    def is_active(self) -> bool:
        return not self._future.isDone()

    def error(self) -> BaseException | None:
        """Why a finished job failed; None if it did not."""
        try:
            self._future.get()
        except Exception as error:
            return error
        return None

    def running_tasks(self) -> int:
        """How many of its tasks have a slot."""
        tracker = self._context.statusTracker()
        found = 0
        for number in self._future.jobIds():
            info = tracker.getJobInfo(number)
            stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info is not None else []
            found += sum(stage.numActiveTasks for stage in stages if stage is not None)
        return found

    def cancel(self) -> None:
        """Cancels the job: Spark kills the processes of its tasks within seconds."""
        self._future.cancel(True)

    def wait(self, seconds: float) -> bool:
        """Waits for its end; whether it ended in time."""
        deadline = time.monotonic() + seconds
        while self.is_active:
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)
        return True
