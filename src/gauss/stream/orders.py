"""Reads of whole tables by processors. Each read is triggered by an order, a record in a hidden topic that the
processor reads like any other: an epoch is one whole read and is published exactly once."""

from __future__ import annotations

from typing import Any

import msgspec

from gauss.clients.engine.positions import At
from gauss.config.spec import Pipeline, ProcessorDef, SourceRef
from gauss.contracts.storage import ReadMode, TopicKind
from gauss.model.names import orders_topic

ROW_READS = (ReadMode.SNAPSHOT, ReadMode.QUERY, ReadMode.SUBSCRIBE)


class OrdersSource(SourceRef):
    """The orders topic as the source of a processor."""

    table: str
    """The topic whose rows are ordered."""


class Order(msgspec.Struct, frozen=True):
    """One read of a table."""

    topic: str
    asked: str
    """The config of the read; a change of it starts over."""
    from_ms: int | None = None
    """With to_ms: a time range of the records; None: all rows."""
    to_ms: int | None = None
    seen: At | None = None
    """With `subscribe`: the table's incarnation and version at the time of the order."""


def reads_table(pipeline: Pipeline, processor: ProcessorDef) -> bool:
    """Whether a processor reads the rows of a table, once or repeatedly."""
    source = processor.source
    if source is None or source.read not in ROW_READS:
        return False
    topic = next((each for each in pipeline.topics if each.name == source.topic), None)
    return topic is not None and (topic.kind.has_rows or source.read == ReadMode.SNAPSHOT)


def passes_rows(pipeline: Pipeline, processor: ProcessorDef) -> bool:
    """Whether it writes the rows of a database table unchanged: neither its input nor its output names a format."""
    if not reads_table(pipeline, processor) or any(_format(processor, side) for side in ("input", "output")):
        return False
    assert processor.source is not None
    topic = pipeline.topic(processor.source.topic)
    elsewhere = processor.target is None or processor.target.topic != topic.name
    return topic.kind is TopicKind.STORED_TABLE and elsewhere


def _format(processor: ProcessorDef, side: str) -> str | None:
    given = processor.config.get(side)
    return given.get("format") if isinstance(given, dict) else None


def with_input(processor: ProcessorDef, format_name: str | None) -> ProcessorDef:
    """The processor with its orders topic as source, and `format_name` as input format unless it names one."""
    assert processor.source is not None
    source = OrdersSource(topic=orders_topic(processor.name), read=ReadMode.OFFSET, table=processor.source.topic)
    config: dict[str, Any] = dict(processor.config)
    given = config.get("input")
    if format_name is not None and isinstance(given, dict) and given.get("format") is None:
        config["input"] = {**given, "format": format_name}
    return processor.model_copy(update={"source": source, "config": config})
