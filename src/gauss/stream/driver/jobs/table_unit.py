"""The standing job of a table topic: creates the table, then inserts the records of the topic's inbox."""

from __future__ import annotations

from gauss.config.spec import ProcessorDef
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.stream.child import assignment
from gauss.stream.driver.jobs.unit import StandingUnit
from gauss.stream.driver.planning.standing_plans import Sizes, StandingPlan, TablePlan, TableWork
from gauss.stream.driver.supervised import Context
from gauss.stream.tables import table_topic
from gauss.tables.mapped_table import MappedTable

LOCAL_SETTLE_S = 5.0
CLUSTER_SETTLE_S = 150.0
"""Spark declares an executor lost after 120 s; until then it may still insert."""


class TableUnit(StandingUnit):
    """The job that fills one table. It waits for an unavailable server without limit."""

    runs = "table"

    def __init__(self, context: Context, processor: ProcessorDef, cores: int) -> None:
        super().__init__(context, processor.name, None, cores)
        assert processor.source is not None
        self._topic = processor.source.topic

    @property
    def names(self) -> list[str]:
        return [self.name]

    def plan(self, job: int) -> StandingPlan:
        context = self.context
        topic = self._table()
        try:
            lacking = topic.store.prepare(topic.target)
        finally:
            topic.store.close()
        if topic.store.ordered:  # later rows replace earlier ones, so blocks are inserted one after the other
            self._most = 1
        section, config = context.pipeline.spark, topic.config
        sizes = Sizes(
            max_rows=max(section.max_batch_rows, config.insert_batch_size),
            max_bytes=section.max_batch_bytes,
            target_ms=max(section.target_batch_ms, config.flush_interval),
            min_rows=config.insert_batch_size,
            flush_ms=config.flush_interval,
        )
        work = TableWork(str(context.data_dir.root), topic.name, lacking, self._settle_s)
        unmarked = config.exactly_once and OFFSET_COLUMN in lacking
        self._note = f"at least once: the table has no columns {INC_COLUMN} and {OFFSET_COLUMN}" if unmarked else ""
        return TablePlan(context.flight, job, sizes, self.name, work)

    @property
    def _settle_s(self) -> float:
        return LOCAL_SETTLE_S if self.context.pipeline.spark.master.startswith("local") else CLUSTER_SETTLE_S

    @property
    def _stall_s(self) -> float:
        """Longer than usual: an epoch may first wait for inserts of an earlier task that are still in flight."""
        return super()._stall_s + self._settle_s

    def began(self, detail: str = "") -> None:
        super().began(detail or self._note)

    def _table(self) -> MappedTable:
        data_dir = self.context.data_dir
        return table_topic(self.context.pipeline, self._topic, assignment(data_dir).base_dir, data_dir)
