"""The Spark data source `gauss`: topics as streams and batches, decoded by the tasks that read them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from gauss.clients.engine.positions import Ends
from gauss.clients.engine.task_messages import Latest
from gauss.model.errors import ConfigError, traced
from gauss.stream.driver.planning.reads import QueryRead, ReadPartials, ReadPlan
from gauss.stream.driver.planning.refs import MARK
from gauss.stream.driver.planning.writes import WritePlan
from gauss.stream.driver.tasks.pace import Pace
from gauss.stream.driver.tasks.reading import Part, Ranges, RestoredPart, distribute, engine, heartbeats, ranges, task

if TYPE_CHECKING:
    from gauss.stream.driver.queries.adhoc_source import TopicPlan
    from gauss.stream.driver.queries.table_rows import RowsPlan


class GaussDataSource(DataSource):
    """`format("gauss")`. Queries of the driver pass the option `plan`, a ReadPlan or WritePlan as JSON; for the options
    of users see `adhoc_source.py`."""

    @classmethod
    def name(cls) -> str:
        return "gauss"

    def _read_plan(self) -> ReadPlan:
        found: ReadPlan = msgspec.json.decode(self.options["plan"], type=ReadPlan)
        return found

    def _rows(self) -> RowsPlan | None:
        """The table that a user's options name."""
        if "plan" in self.options:
            return None
        from gauss.stream.driver.queries.table_rows import RowsPlan

        return RowsPlan.of(self.options)

    def _topic(self) -> TopicPlan | None:
        """The topic that a user's options name."""
        if "plan" in self.options:
            return None
        from gauss.stream.driver.queries.adhoc_source import TopicPlan

        return TopicPlan.of(self.options)

    @traced()
    def schema(self) -> StructType:
        given = (self._rows() or self._topic() or self._read_plan()).schema()
        found = from_arrow_schema(given)
        for field in found:  # Spark keeps the metadata of a column that a query passes on, also under another name
            if mark := (given.field(field.name).metadata or {}).get(MARK.encode()):
                field.metadata = {MARK: mark.decode()}
        return found

    @traced()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if (rows := self._rows()) is not None:
            raise ConfigError(
                f'topic "{rows.topic}" is a table and can\'t be read as a stream',
                hint="read it with spark.read, or stream the topic that feeds it",
            )
        if (topic := self._topic()) is not None:
            from gauss.stream.driver.queries.adhoc_source import TopicStream

            return TopicStream(topic, schema)
        return StreamReader(self._read_plan(), schema)

    @traced()
    def reader(self, schema: StructType) -> DataSourceReader:
        if (rows := self._rows()) is not None:
            from gauss.stream.driver.queries.table_rows import RowsReader

            return RowsReader(rows, schema)
        if (topic := self._topic()) is not None:
            from gauss.stream.driver.queries.adhoc_source import TopicReader

            return TopicReader(topic, schema)
        end = msgspec.json.decode(self.options["end"], type=Ends)
        return BatchReader(self._read_plan(), schema, end)

    @traced()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        from gauss.stream.driver.queries.sink import StreamWriter

        if "plan" not in self.options:
            raise ConfigError(
                'format("gauss") does not support writeStream outside a pipeline',
                hint="write batches with foreachBatch, or use a processor",
            )
        return StreamWriter(msgspec.json.decode(self.options["plan"], type=WritePlan))

    @traced()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if (topic := self._topic()) is not None:
            from gauss.stream.driver.queries.adhoc_source import TopicWriter

            if overwrite:
                raise ConfigError("a topic can't be overwritten", hint='use .mode("append")')
            return TopicWriter(topic, schema)
        from gauss.stream.driver.queries.sink import BatchWriter

        ends = msgspec.json.decode(self.options["ends"], type=Ends)
        return BatchWriter(msgspec.json.decode(self.options["plan"], type=WritePlan), int(self.options["epoch"]), ends)


def to_ends(offset: dict[str, Any]) -> Ends:
    return msgspec.convert(offset, type=Ends)


class _Reading:
    """Base of stream and batch readers: runs the read plan on the parts of a partition."""

    def __init__(self, plan: QueryRead, schema: StructType) -> None:
        self.plan = plan
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        parts = partition.parts if isinstance(partition, Ranges) else [partition]
        schema = to_arrow_schema(self._schema, timezone="UTC")
        with task():
            for batch in chain.from_iterable(self.plan.run(cast(Part, part)) for part in parts):
                arrays = [(batch.column(field.name), field.type) for field in schema]
                arrays = [array if array.type == kind else array.cast(kind) for array, kind in arrays]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            if self.plan.outside:
                from gauss.stream.driver.tasks.outside_topics import check_read

                check_read()


class BatchReader(_Reading, DataSourceReader):
    """A bounded read from the plan's start to `end`."""

    def __init__(self, plan: QueryRead, schema: StructType, end: Ends) -> None:
        super().__init__(plan, schema)
        self._end = end

    def partitions(self) -> Sequence[InputPartition]:
        return ranges(self.plan.start, self._end)


class StreamReader(_Reading, DataSourceStreamReader):
    """Plans the batches of a query, in one process per query; `read` runs in Spark's workers."""

    def __init__(self, plan: QueryRead, schema: StructType) -> None:
        super().__init__(plan, schema)
        self._pace = Pace(plan.target_ms, plan.max_rows)

    def initialOffset(self) -> dict[str, Any]:
        # The engine fixed it at the first claim of this checkpoint: Spark logs no start for batch 0.
        return msgspec.to_builtins(self.plan.start)  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.plan.max_rows)

    @traced()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch. `start` is committed, so the engine may release the records before it."""
        self._pace.asked(time.monotonic())
        rows = self.plan.max_rows if isinstance(limit, ReadAllAvailable) else self._pace.rows
        asked = Latest(
            self.plan.processor,
            self.plan.generation,
            to_ends(start),
            max_rows=rows,
            max_bytes=self.plan.max_bytes,
            timing=self.plan.timing,
        )
        reply = engine(self.plan.flight).latest(asked)
        if reply.end == asked.start:
            return start  # the same object: any difference in its text would start a batch
        self._pace.given(time.monotonic(), reply.rows, reply.lag)
        return msgspec.to_builtins(reply.end)  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        plan = self.plan
        begin, stop = to_ends(start), to_ends(end)
        watermark_ms = plan.timing.watermark_ms if plan.timing is not None else None
        found: list[Part] = [*ranges(begin, stop, plan.mode, watermark_ms)]
        if plan.timing is not None:
            found += heartbeats(begin, stop)
        if isinstance(plan, ReadPartials) and plan.restored and begin == plan.start:
            found.append(RestoredPart(Path(plan.restored).read_bytes()))
        return distribute(found, plan.tasks) if plan.tasks else found

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark calls it when it plans the next batch, too late to free a full ring."""

    def stop(self) -> None:
        """Does nothing: the connection belongs to the process."""
