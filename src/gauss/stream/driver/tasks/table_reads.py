"""Processors that read tables: each order triggers one read, whose rows are the records of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from gauss.clients.engine.cursor_messages import Read
from gauss.config.spec import FormatDef, Pipeline
from gauss.contracts.cursor import Program, Seq, TimeRange
from gauss.contracts.storage import TopicKind
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.names import DATA_COLUMN, INC_COLUMN, OFFSET_COLUMN, TS_MS_COLUMN, rows_format
from gauss.model.paths import DataDir
from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.planning.refs import FormatRef
from gauss.stream.driver.tasks.outside_topics import task_log
from gauss.stream.driver.tasks.reading import Range, engine, format_of
from gauss.stream.orders import Order, reads_table, with_input
from gauss.stream.rows_format import ROWS, rows_config
from gauss.stream.tables import table_topic

JSON = FormatRef("json")


def with_orders(pipeline: Pipeline, base_dir: Path, data_dir: DataDir) -> Pipeline:
    """The pipeline with the orders topic as input of each processor that reads a table, and a format for its rows."""
    formats, processors = list(pipeline.formats), []
    for processor in pipeline.processors:
        if not reads_table(pipeline, processor):
            processors.append(processor)
            continue
        assert processor.source is not None
        topic = next(each for each in pipeline.topics if each.name == processor.source.topic)
        name = topic.storage_config.get("format")
        if topic.kind is TopicKind.STORED_TABLE:
            reader = table_topic(pipeline, topic.name, base_dir, data_dir).reader
            name = rows_format(topic.name)
            if all(each.name != name for each in formats):
                formats.append(FormatDef.model_construct(name=name, plugin=ROWS, config=rows_config(reader)))
        processors.append(with_input(processor, name))
    return pipeline.model_copy(update={"formats": formats, "processors": processors})


class OrderedRows(NamedTuple):
    """Rows of a table."""

    batch: pa.RecordBatch
    encoded: bool
    """Whether they are records that have to be decoded."""
    partition: int = 0


def read_ordered(plan: RangeRead, part: Range) -> Iterator[OrderedRows]:
    """The rows of the reads that a range of orders triggers."""
    client = engine(plan.flight)
    ticket = Read(part.topic, part.inc, part.start, part.stop, plan.processor, plan.generation)
    for orders in client.read(ticket):
        for text in orders.column(2).to_pylist():
            order = msgspec.json.decode(text, type=Order)
            if order.topic in plan.outside:
                for partition, batch in task_log(plan.flight, order.topic).snapshot():
                    yield OrderedRows(batch, True, partition)
                continue
            view = Seq() if order.from_ms is None else TimeRange(order.from_ms, order.to_ms)
            time = None
            for batch in client.scan(order.topic, Program(view)):
                if "data" in batch.schema.names and "version" in batch.schema.names:
                    yield OrderedRows(_records(batch), True)
                    continue
                if time is None:
                    time = str(client.command("table", {"topic": order.topic})["time"])
                yield OrderedRows(_columns(plan, batch, time), False)


def _records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a memory table as records."""
    columns = [batch.column(name) for name in ("version", "ts_ms", "data")]
    return pa.RecordBatch.from_arrays(
        [column.cast(kind) for column, kind in zip(columns, RECORD_SCHEMA.types, strict=True)], schema=RECORD_SCHEMA
    )


def _columns(plan: RangeRead, batch: pa.RecordBatch, time: str) -> pa.RecordBatch:
    """Rows of a database table as decoded fields, with their time and the encoded row."""
    names, nulls = batch.schema.names, partial(pa.nulls, len(batch))
    made: dict[str, Any] = {}
    for field in plan.decoded():
        name = field.name.removeprefix("$.")
        made[field.name] = as_field(batch.column(name), field.type) if name in names else nulls(field.type)
    made[TS_MS_COLUMN] = _milliseconds(batch.column(time)) if time in names else nulls(pa.int64())
    own = batch.select([name for name in names if name not in (INC_COLUMN, OFFSET_COLUMN)])
    made[DATA_COLUMN] = format_of(plan.format or JSON).encode_batch(own) if plan.keep_data else nulls(pa.binary())
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def as_field(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column cast to the Arrow type of its field."""
    if pa.types.is_string(column.type) and pa.types.is_binary(wanted):  # a UUID
        digits = [None if text is None else bytes.fromhex(text.replace("-", "")) for text in column.to_pylist()]
        return pa.array(digits, wanted)
    return column if column.type == wanted else column.cast(wanted)


def _milliseconds(column: pa.Array) -> pa.Array:
    return (
        column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    )
