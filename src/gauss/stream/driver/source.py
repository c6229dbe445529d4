"""Spark's data source `gauss`: topics as streams and batches, decoded where they are read."""

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

from gauss.model.errors import ConfigError
from gauss.stream.driver.pace import Pace
from gauss.stream.driver.plan import MARK, ReadPlan, WritePlan
from gauss.stream.driver.reading import Range, Ranges, engine, ranges, read_decoded, shared_out, task
from gauss.stream.driver.timed import read_timed
from gauss.stream.protocol import Ends, Latest

if TYPE_CHECKING:
    from gauss.stream.driver.people import TopicPlan
    from gauss.stream.driver.table_rows import RowsPlan


class GaussDataSource(DataSource):
    """`format("gauss")`: our own queries give the option `plan`, a ReadPlan or WritePlan as JSON; for people see
    `people.py`."""

    @classmethod
    def name(cls) -> str:
        return "gauss"

    def _read_plan(self) -> ReadPlan:
        return msgspec.json.decode(self.options["plan"], type=ReadPlan)

    def _rows(self) -> RowsPlan | None:
        """The table that a person asked for."""
        if "plan" in self.options:
            return None
        from gauss.stream.driver.table_rows import RowsPlan

        return RowsPlan.of(self.options)

    def _topic(self) -> TopicPlan | None:
        """The topic that a person asked for."""
        if "plan" in self.options:
            return None
        from gauss.stream.driver.people import TopicPlan

        return TopicPlan.of(self.options)

    def schema(self) -> StructType:
        given = (self._rows() or self._topic() or self._read_plan()).schema()
        found = from_arrow_schema(given)
        for field in found:  # Spark keeps it with a column that a query only passes on, under whatever name
            if mark := (given.field(field.name).metadata or {}).get(MARK.encode()):
                field.metadata = {MARK: mark.decode()}
        return found

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if (rows := self._rows()) is not None:
            raise ConfigError(
                f'topic "{rows.topic}" is a table, which has no stream',
                hint="read it with spark.read, or stream the topic that its records come from",
            )
        if (topic := self._topic()) is not None:
            from gauss.stream.driver.people import TopicStream

            return TopicStream(topic, schema)
        return StreamReader(self._read_plan(), schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        if (rows := self._rows()) is not None:
            from gauss.stream.driver.table_rows import RowsReader

            return RowsReader(rows, schema)
        if (topic := self._topic()) is not None:
            from gauss.stream.driver.people import TopicReader

            return TopicReader(topic, schema)
        end = msgspec.json.decode(self.options["end"], type=Ends)
        return BatchReader(self._read_plan(), schema, end)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        from gauss.stream.driver.sink import StreamWriter

        if "plan" not in self.options:
            raise ConfigError(
                'format("gauss") takes no stream of a job of one\'s own',
                hint="write batches: foreachBatch, or a processor",
            )
        return StreamWriter(msgspec.json.decode(self.options["plan"], type=WritePlan))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if (topic := self._topic()) is not None:
            from gauss.stream.driver.people import TopicWriter

            if overwrite:
                raise ConfigError("a topic can't be overwritten", hint='use .mode("append")')
            return TopicWriter(topic, schema)
        from gauss.stream.driver.sink import BatchWriter

        ends = msgspec.json.decode(self.options["ends"], type=Ends)
        return BatchWriter(msgspec.json.decode(self.options["plan"], type=WritePlan), int(self.options["epoch"]), ends)


def to_ends(offset: dict[str, Any]) -> Ends:
    return msgspec.convert(offset, type=Ends)


class _Reading:
    """What stream and batch readers share: a range's records, or the range itself where its task is the host."""

    def __init__(self, plan: ReadPlan, schema: StructType) -> None:
        self.plan = plan
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        parts = partition.parts if isinstance(partition, Ranges) else [partition]
        schema = to_arrow_schema(self._schema, timezone="UTC")
        reads = read_decoded if self.plan.time is None else read_timed
        with task():
            for batch in chain.from_iterable(reads(self.plan, cast(Range, part)) for part in parts):
                arrays = [(batch.column(field.name), field.type) for field in schema]
                arrays = [array if array.type == kind else array.cast(kind) for array, kind in arrays]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class BatchReader(_Reading, DataSourceReader):
    """A bounded read from the plan's start to `end`."""

    def __init__(self, plan: ReadPlan, schema: StructType, end: Ends) -> None:
        super().__init__(plan, schema)
        self._end = end

    def partitions(self) -> Sequence[InputPartition]:
        return ranges(self.plan.start, self._end)


class StreamReader(_Reading, DataSourceStreamReader):
    """Lives in one process per query; `read` runs in Spark's workers."""

    def __init__(self, plan: ReadPlan, schema: StructType) -> None:
        super().__init__(plan, schema)
        self._pace = Pace(plan.target_ms, plan.max_rows)

    def initialOffset(self) -> dict[str, Any]:
        # The engine fixed it when this checkpoint was first claimed: batch 0's start is in no log of Spark's.
        return msgspec.to_builtins(self.plan.start)  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.plan.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes. `start` tells the engine what is committed: only here may it let go."""
        self._pace.asked(time.monotonic())
        rows = self.plan.max_rows if isinstance(limit, ReadAllAvailable) else self._pace.rows
        asked = Latest(
            self.plan.processor,
            self.plan.generation,
            to_ends(start),
            max_rows=rows,
            max_bytes=self.plan.max_bytes,
            timing=self.plan.time.timing if self.plan.time is not None else None,
        )
        reply = engine(self.plan.flight).latest(asked)
        if reply.end == asked.start:
            return start  # the very same text: any difference would make a batch
        self._pace.given(time.monotonic(), reply.rows, reply.lag)
        return msgspec.to_builtins(reply.end)  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        time = self.plan.time
        watermark_ms = time.timing.watermark_ms if time is not None else None
        found = ranges(to_ends(start), to_ends(end), self.plan.read, watermark_ms)
        if time is not None and time.restored and to_ends(start) == self.plan.start:
            found.append(Range("", 0, 0, 0, restored=Path(time.restored).read_bytes()))
        return shared_out(found, self.plan.tasks) if self.plan.tasks else found

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes only when the next batch is planned, too late to free a full ring."""

    def stop(self) -> None:
        """Nothing to let go: the connection belongs to the process."""
