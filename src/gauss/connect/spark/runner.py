"""The Spark session of a sync, and the attempts that run in it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gauss import registry
from gauss.config.spec import SparkSection
from gauss.config.syncs import SyncDef
from gauss.connect.attempt import Side
from gauss.connect.host import StreamRun
from gauss.connect.plan import StreamPlan
from gauss.connect.program import result_schema
from gauss.connect.spark.attempt import Job, SparkAttempt
from gauss.connect.spark.query import QueryJob, result_of
from gauss.connect.spark.task import TaskOrder, make_task
from gauss.contracts.connector.stream import SyncMode
from gauss.model.paths import DataDir
from gauss.spark import session
from gauss.spark.jvm import Use
from gauss.spark.session import Preload
from gauss.spark.standing import StandingJob

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

PRELOAD = Preload((), ("gauss.connect.spark.task",))
PARTS_PER_CORE = 2
"""Partitions differ in size: with several per core, no core waits long for the last one."""


class SparkRunner:
    """Runs the streams of a sync on Spark. Implements `runner.Runner`."""

    def __init__(self, sync: SyncDef, section: SparkSection, base_dir: Path, data_dir: Path) -> None:
        """Starts Spark in a folder of the sync's own: a run may use the same data directory."""
        self._sync, self._base_dir, self._data_dir = sync, base_dir, data_dir
        place = DataDir(data_dir / "connect" / "spark" / sync.name)
        for folder in (place.run, place.logs, place.cache):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.environ.setdefault("GAUSS_CACHE_DIR", str(DataDir(data_dir).cache))  # one class archive for all
        registry.look_in(base_dir)
        queries = any(each.transform is not None and each.transform.sql for each in _named(sync))
        use = Use.COLUMNS if queries else Use.NOTHING
        self._spark = session.start(_section(section, queries=queries), place, use=use, preload=PRELOAD)
        self._is_local = section.master.startswith("local")

    @property
    def _context(self) -> SparkContext:
        return self._spark.context

    @property
    def _host(self) -> str:
        """Where tasks reach this process."""
        return "127.0.0.1" if self._is_local else self._context.getConf().get("spark.driver.host", "127.0.0.1")

    def result_schema(self, plan: StreamPlan) -> pa.Schema:
        query = _query(plan)
        return result_of(self._session(), query, plan.schema()) if query else result_schema(plan)

    def _session(self) -> SparkSession:
        """A session with views of its own."""
        return self._spark.session.newSession()

    def attempt(self, plan: StreamPlan, run: StreamRun, source: Side, destination: Side) -> SparkAttempt:  # noqa: ARG002
        """`destination` is made anew in each task."""
        staged = run.schema is not None and plan.mode is SyncMode.FULL_REFRESH
        transform = plan.definition.transform

        def submit(link: tuple[str, int, bytes], partitions: list[Any]) -> Job:
            order = TaskOrder(
                self._sync,
                str(self._base_dir),
                str(self._data_dir),
                run.stream,
                run.generation,
                link,
                partitions,
                staged,
                run.opaque,
                run.schema,
                transform.program if transform is not None else None,
                plan.schema(),
            )
            if query := _query(plan):
                return QueryJob(self._session(), order, query)
            name = f"{self._sync.name}: {plan.name}"
            return StandingJob(self._context, name, partial(make_task, order), tasks=len(partitions))

        # An increment that goes through a query has no checkpoint before its end: rows without one are not written.
        drains = staged or not _query(plan)
        parts = self._context.defaultParallelism * PARTS_PER_CORE if staged else 1
        reports = not _query(plan)
        return SparkAttempt(run, source, submit, parts=parts, host=self._host, drains=drains, reports=reports)

    def close(self) -> None:
        self._spark.stop()


def _section(section: SparkSection, *, queries: bool) -> SparkSection:
    """The settings of the session. A query's task can't be copied while it runs: the copy would be taken for one that
    was lost, which ends the attempt."""
    if not queries:
        return section
    return section.model_copy(update={"conf": {**section.conf, "spark.speculation": "false"}})


def _query(plan: StreamPlan) -> str:
    transform = plan.definition.transform
    return (transform.sql or "") if transform is not None else ""


def _named(sync: SyncDef) -> list[Any]:
    return [] if sync.streams == "*" else list(sync.streams)
