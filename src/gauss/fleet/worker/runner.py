"""Runs ranges as plain Spark jobs on one shared context."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gauss.fleet.worker import range_work
from gauss.fleet.worker.range_work import RangeResult, RangeWork
from gauss.model.errors import GaussError, Unavailable, errors_in_trace, from_dict, traced

if TYPE_CHECKING:
    from gauss.spark.session import Spark

LANE_SECONDS = 5.0
"""A lane that has worked for so long begins no other range."""
TRIAL_SECONDS = 1.0
"""How long a trial waits for others, so that many are soon over when a server is back."""
HANG_SECONDS = 300.0
"""No job takes so long: deadlines end its attempts, and servers have less time to answer."""


class Failure(NamedTuple):
    """Why a range was not inserted, or not surely."""

    error: GaussError


Answer = RangeResult | Failure | None
"""Of a range. None: it was not tried, for lack of time or of a place."""


class Runner(Protocol):
    """Runs ranges of one pipeline. Called from several threads."""

    def check(self) -> None:
        """Raises Unavailable if it can run nothing any more."""
        ...

    def run(self, pipeline_id: str, works: Sequence[RangeWork], *, is_trial: bool = False) -> list[Answer]:
        """The answer of each range, in order. `is_trial`: the last attempt of this pipeline failed, so this one may
        hang as well."""
        ...


class SparkRunner:
    """A job for the ranges of a pipeline that wait at the same time. Spark does not preempt, so a pipeline whose server
    hangs holds the slots of its tasks until its requests time out: it gets half of the slots at most, and pipelines
    that fail get a quarter together."""

    def __init__(self, spark: Spark, slots: int) -> None:
        self._spark, self._context = spark, spark.context
        self._lanes = max(slots // 2, 1)
        self._trials = threading.Semaphore(max(slots // 4, 1))
        self._jobs: dict[int, float] = {}
        """By thread, when the job began that it waits for."""

    def check(self) -> None:
        """A JVM that hangs is killed: threads that wait for its answer could not end."""
        process, again = self._spark.process, "start the worker again"
        if time.monotonic() - min(list(self._jobs.values()), default=math.inf) > HANG_SECONDS:
            process.kill()
            raise Unavailable(f"a job of Spark has not ended for {HANG_SECONDS:.0f} s, so this worker ends", hint=again)
        if process.poll() is not None:
            raise Unavailable("Spark has ended, so this worker ends", hint=again)

    def warm_up(self) -> None:
        """Runs a job without records: the first one loads classes and starts a process of Python for seconds, for which
        the records of a worker that was killed would wait."""
        with contextlib.suppress(Exception):  # the first range tells what is wrong
            self._context.parallelize([0], 1).map(_same).collect()

    def run(self, pipeline_id: str, works: Sequence[RangeWork], *, is_trial: bool = False) -> list[Answer]:
        if not is_trial:
            return self._run(pipeline_id, works, self._lanes)
        if not self._trials.acquire(timeout=TRIAL_SECONDS):
            return [None] * len(works)
        try:
            return self._run(pipeline_id, works, 1)
        finally:
            self._trials.release()

    def _run(self, pipeline_id: str, works: Sequence[RangeWork], most: int) -> list[Answer]:
        count = min(len(works), most)
        lanes = [works[first::count] for first in range(count)]
        self._jobs[threading.get_ident()] = time.monotonic()
        try:
            self._context.setLocalProperty("spark.scheduler.pool", pipeline_id)
            found = self._context.parallelize(lanes, count).map(attempt_all).collect()
        except Exception as error:  # the JVM, or a Python process, died
            known = errors_in_trace(str(error))
            reason = known[0] if known else Unavailable(f"a job of Spark failed: {type(error).__name__}")
            return [Failure(reason)] * len(works)
        finally:
            self._jobs.pop(threading.get_ident())
        answers = [found[at % count][at // count] for at in range(len(works))]
        return [Failure(from_dict(each)) if isinstance(each, dict) else each for each in answers]


def _same(value: int) -> int:
    return value


def attempt_all(works: Sequence[RangeWork]) -> list[RangeResult | dict[str, object] | None]:
    """The results of ranges in turn. Those that are left when the time or the space for dead letters is used up come
    back as None."""
    found: list[RangeResult | dict[str, object] | None] = []
    began, space = time.monotonic(), range_work.MOST_LETTERS_BYTES
    for work in works:
        result = None
        if time.monotonic() - began < LANE_SECONDS and space > 0:
            result = attempt(work)
            space -= 0 if isinstance(result, dict) else result.letters_size
        found.append(result)
    return found


def attempt(work: RangeWork) -> RangeResult | dict[str, object]:
    """The result of a range, or its error as plain data: one range that fails must not fail the others of its job."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:  # the first attempt may have inserted some rows
        work = range_work.unclear(work)
    try:
        with traced():
            return range_work.run(work)
    except GaussError as error:
        return error.to_dict()
    except Exception as error:
        return Unavailable(f"unexpected: {type(error).__name__}: {error}").to_dict()
