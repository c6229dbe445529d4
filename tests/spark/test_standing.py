"""Standing jobs on a real Spark: parallel tasks, retries and their end."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from pyspark import cloudpickle

from gauss.spark.standing import StandingJob, TaskLoop, TaskPlace
from helpers.waiting import stays, wait_until

if TYPE_CHECKING:
    from pyspark import SparkContext

    from gauss.spark.session import Spark

pytestmark = pytest.mark.spark

SECONDS = 90.0
"""How long a task may take on a busy machine."""


@pytest.fixture(scope="module", autouse=True)
def _loops_travel_whole() -> Iterator[None]:
    """Pickles loops by value, since workers cannot import tests."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Noting:
    """A loop that creates a file when it begins and another when it is closed."""

    def __init__(self, folder: Path, place: TaskPlace) -> None:
        self.folder, self.place = folder, place
        self._note("began")

    def _note(self, what: str) -> None:
        (self.folder / f"{what} {self.place.task} {self.place.attempt}").write_text(str(os.getpid()))

    def step(self) -> bool:
        """Runs until the test ends it."""
        time.sleep(0.02)
        return not (self.folder / "end").exists()

    def close(self) -> None:
        self._note("closed")


class Failing(Noting):
    """A loop that raises in its first attempts."""

    def __init__(self, folder: Path, fails: int, place: TaskPlace) -> None:
        super().__init__(folder, place)
        self.fails = fails

    def step(self) -> bool:
        if self.place.attempt < self.fails:
            raise ValueError(f"attempt {self.place.attempt} as asked")
        return False


class Jobs:
    """Starts jobs, and reads the files of their loops."""

    def __init__(self, context: SparkContext, folder: Path) -> None:
        self.context, self.folder = context, folder
        self.made: list[StandingJob] = []

    def start(self, make: Callable[..., TaskLoop], *given: int, tasks: int = 1, first: int = 0) -> StandingJob:
        bound = partial(make, self.folder, *given)
        self.made.append(StandingJob(self.context, "test", bound, tasks=tasks, first=first))
        return self.made[-1]

    def noted(self, what: str) -> dict[TaskPlace, int]:
        """The tasks that created such a file, with their processes."""
        found = {}
        for path in self.folder.glob(f"{what} *"):
            _, task, attempt = path.name.split()
            if text := path.read_text():
                found[TaskPlace(int(task), int(attempt))] = int(text)
        return found

    def end(self) -> None:
        """Ends the loops."""
        (self.folder / "end").touch()


@pytest.fixture
def jobs(started_spark: Spark, tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(started_spark.context, tmp_path)
    yield made
    for job in made.made:
        job.cancel()
    for job in made.made:
        assert job.wait(SECONDS)


def test_tasks_run_beside_each_other_and_each_has_its_place(jobs: Jobs) -> None:
    job = jobs.start(Noting, tasks=3)
    wait_until(lambda: len(jobs.noted("began")) == 3, SECONDS)
    assert job.is_active and not job.wait(0.1)
    assert jobs.noted("closed") == {}
    began = jobs.noted("began")
    assert set(began) == {TaskPlace(0), TaskPlace(1), TaskPlace(2)}
    assert len(set(began.values())) == 3
    jobs.end()
    assert job.wait(SECONDS)


def test_loops_that_end_end_their_job_without_an_error(jobs: Jobs) -> None:
    jobs.end()
    job = jobs.start(Noting, tasks=2)
    assert job.wait(SECONDS)
    assert not job.is_active
    assert job.error() is None
    assert set(jobs.noted("closed")) == {TaskPlace(0), TaskPlace(1)}


def test_jobs_run_beside_each_other_and_one_ends_without_the_other(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Jobs(jobs.context, tmp_path / "other")
    staying, ending = jobs.start(Noting), other.start(Noting)
    wait_until(lambda: bool(jobs.noted("began") and other.noted("began")), SECONDS)
    other.end()
    assert ending.wait(SECONDS)
    assert staying.is_active
    wait_until(lambda: staying.running_tasks() == 1, SECONDS)  # Spark's own count is up to a heartbeat late


def test_loop_that_raises_is_tried_again_as_a_later_attempt(jobs: Jobs) -> None:
    job = jobs.start(Failing, 2)
    assert job.wait(SECONDS)
    assert job.error() is None
    assert set(jobs.noted("began")) == set(jobs.noted("closed")) == {TaskPlace(0, 0), TaskPlace(0, 1), TaskPlace(0, 2)}


def test_loop_that_always_raises_fails_its_job_with_its_error_and_is_closed_each_time(jobs: Jobs) -> None:
    job = jobs.start(Failing, 100)
    assert job.wait(SECONDS)
    assert "ValueError: attempt 2 as asked" in str(job.error())
    assert set(jobs.noted("began")) == set(jobs.noted("closed")) == {TaskPlace(0, 0), TaskPlace(0, 1), TaskPlace(0, 2)}


def test_cancel_ends_the_job_and_its_processes(jobs: Jobs) -> None:
    job = jobs.start(Noting, tasks=2)
    wait_until(lambda: len(jobs.noted("began")) == 2, SECONDS)
    job.cancel()
    assert job.wait(10)
    assert not job.is_active
    assert job.error() is not None
    pids = jobs.noted("began").values()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 20, what=pids)
    wait_until(lambda: job.running_tasks() == 0, 20)


def test_cancel_of_a_job_that_is_over_changes_nothing(jobs: Jobs) -> None:
    jobs.end()
    job = jobs.start(Noting)
    assert job.wait(SECONDS)
    job.cancel()
    assert job.error() is None


def test_first_numbers_the_tasks(jobs: Jobs) -> None:
    jobs.end()
    assert jobs.start(Noting, tasks=2, first=5).wait(SECONDS)
    assert set(jobs.noted("began")) == {TaskPlace(5), TaskPlace(6)}


def test_running_tasks_counts_those_that_have_a_slot(jobs: Jobs) -> None:
    slots = int(re.findall(r"\d+", str(jobs.context.master))[0])
    job = jobs.start(Noting, tasks=slots + 1)
    wait_until(lambda: job.running_tasks() == slots, SECONDS, what=job.running_tasks)
    wait_until(lambda: len(jobs.noted("began")) == slots, SECONDS)
    stays(lambda: (job.running_tasks(), len(jobs.noted("began"))) == (slots, slots), 0.5)
    jobs.end()
    assert job.wait(SECONDS)
    assert len(jobs.noted("began")) == slots + 1
    assert job.running_tasks() == 0
