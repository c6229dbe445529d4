"""Runs ranges as plain Spark jobs on one shared context."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gauss.fleet.worker import range_work
from gauss.fleet.worker.range_work import RangeResult, RangeWork
from gauss.model.errors import GaussError, Unavailable, errors_in_trace, from_dict, traced

if TYPE_CHECKING:
    from pyspark import SparkContext


class Failure(NamedTuple):
    """Why a range was not inserted, or not surely."""

    error: GaussError


class Runner(Protocol):
    """Runs ranges of one pipeline. Called from several threads."""

    def run(self, pipeline_id: str, works: Sequence[RangeWork]) -> list[RangeResult | Failure]:
        """The result of each range, in order."""
        ...


class SparkRunner:
    """A job for the ranges of a pipeline that wait at the same time, and a task for each of them."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def warm_up(self) -> None:
        """Runs a job without records: the first one loads classes and starts a process of Python for seconds, for which
        the records of a worker that was killed would wait."""
        with contextlib.suppress(Exception):  # the first range tells what is wrong
            self._context.parallelize([0], 1).map(_same).collect()

    def run(self, pipeline_id: str, works: Sequence[RangeWork]) -> list[RangeResult | Failure]:
        self._context.setLocalProperty("spark.scheduler.pool", pipeline_id)
        try:
            found = self._context.parallelize(works, len(works)).map(attempt).collect()
        except Exception as error:  # the JVM, or a Python process, died
            known = errors_in_trace(str(error))
            reason = known[0] if known else Unavailable(f"a job of Spark failed: {type(error).__name__}")
            return [Failure(reason)] * len(works)
        return [Failure(from_dict(each)) if isinstance(each, dict) else each for each in found]


def _same(value: int) -> int:
    return value


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
