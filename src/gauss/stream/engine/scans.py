"""Ranges for Spark's tasks, as record batches of about a MiB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.contracts.cursor import Code, Cursor, OffsetRange, Program, Step
from gauss.contracts.edge import TopicHandle
from gauss.model.errors import Collected, ConfigError
from gauss.stream.protocol import Read

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine

STEP = Step(limit=1 << 20, max_bytes=1 << 20)


def batches(cursor: Cursor) -> Iterator[pa.RecordBatch]:
    """Everything a cursor gives now."""
    while cursor.next(STEP) is Code.UNSET:
        _, batch = cursor.read()
        assert isinstance(batch, pa.RecordBatch)
        yield batch


def read_range(engine: Engine, read: Read) -> Iterator[pa.RecordBatch]:
    """Records [start, stop) of one incarnation; what is not there any more is counted as lost for the reader."""
    topic = engine.topic(read.topic)
    if read.processor:
        engine.publisher.check_generation(read.processor, read.generation)
    if read.inc != topic.inc:
        engine.sources.lost_range(read, read.start, read.stop)
        return
    start, stop = read.start, min(read.stop, topic.version())
    while start < stop:
        if start < (floor := topic.floor()):
            engine.sources.lost_range(read, start, min(floor, stop))
            start = min(floor, stop)
            continue
        try:
            cursor = topic.open(Program(OffsetRange(start, stop)))
        except Collected:
            continue
        try:
            yield from batches(cursor)
            start = cursor.position
            if start >= stop:
                return
        finally:
            cursor.close()


def start_offset(topic: TopicHandle, start: str | int) -> int | None:
    """`earliest` (None: the floor), `end`, an offset, or `-N`: the last N records."""
    if start == "earliest":
        return None
    if start == "end":
        return topic.version()
    try:
        offset = int(start)
    except ValueError:
        raise ConfigError(f'expected "earliest", "end", an offset or -N, found "{start}"') from None
    return offset if offset >= 0 else max(topic.floor(), topic.version() + offset)
