"""Reads of whole tables by processors. A read is ordered by a record in a hidden topic, and the processor reads those
records as any other: an epoch is one whole read, and whatever happens to it, it is published once."""

from __future__ import annotations

from typing import Any

import msgspec

from gauss import registry
from gauss.config.spec import Pipeline, ProcessorDef, TopicDef
from gauss.contracts.storage import ReadMode, StorageSpec
from gauss.contracts.table import TableSpec
from gauss.stream.protocol import At

PREFIX = "_reads."
ROW_READS = (ReadMode.SNAPSHOT, ReadMode.QUERY, ReadMode.SUBSCRIBE)


class Order(msgspec.Struct, frozen=True):
    """One read of a table."""

    topic: str
    asked: str
    """What the config said: when it says something else, reading begins anew."""
    from_ms: int | None = None
    """With to_ms: a range of the records' time; None: all rows."""
    to_ms: int | None = None
    seen: At | None = None
    """With `subscribe`: the table's incarnation and version when it was ordered."""


def orders_topic(processor: str) -> str:
    """The hidden topic of a processor's orders."""
    return PREFIX + processor


def reads_table(pipeline: Pipeline, processor: ProcessorDef) -> bool:
    """Whether a processor reads the rows of a table, once or again and again."""
    source = processor.source
    if source is None or source.read not in ROW_READS:
        return False
    topic = next((each for each in pipeline.topics if each.name == source.topic), None)
    return topic is not None and is_table(topic)


def passes_rows(pipeline: Pipeline, processor: ProcessorDef) -> bool:
    """Whether what it writes are the rows of a table elsewhere: neither side of it names a format."""
    if not reads_table(pipeline, processor) or any(_format(processor, side) for side in ("input", "output")):
        return False
    assert processor.source is not None
    topic = next(each for each in pipeline.topics if each.name == processor.source.topic)
    return isinstance(registry.spec(StorageSpec, topic.storage), TableSpec) and (
        processor.target is None or processor.target.topic != topic.name
    )


def _format(processor: ProcessorDef, side: str) -> str | None:
    given = processor.config.get(side)
    return given.get("format") if isinstance(given, dict) else None


def is_table(topic: TopicDef) -> bool:
    """Whether a topic has rows instead of records in their order."""
    spec = registry.spec(StorageSpec, topic.storage)
    if isinstance(spec, TableSpec):
        return True
    modes = spec.read_modes(spec.validate(topic.storage_config))
    return ReadMode.SNAPSHOT in modes and ReadMode.OFFSET not in modes


def with_input(processor: ProcessorDef, format_name: str | None) -> ProcessorDef:
    """The processor as one that reads its orders, and decodes rows by a format unless it names one itself."""
    assert processor.source is not None
    source = processor.source.model_copy(
        update={"topic": orders_topic(processor.name), "read": ReadMode.OFFSET.value, "from_": None, "to": None}
        | {"every": None}
    )
    config: dict[str, Any] = dict(processor.config)
    given = config.get("input")
    if format_name is not None and isinstance(given, dict) and given.get("format") is None:
        config["input"] = {**given, "format": format_name}
    return processor.model_copy(update={"source": source, "config": config})
