"""Reads that leave the engine, as record batches of about a MiB: Spark's ranges, and what people look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.contracts.cursor import Code, Cursor, Mode, OffsetRange, Program, Seq, Step, TimeRange, View
from gauss.contracts.edge import TopicHandle
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import Collected, ConfigError
from gauss.stream.protocol import Read, Scan

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine

STEP = Step(limit=1 << 20, max_bytes=1 << 20)
FOREVER_MS = 1 << 62
WAIT_S = 0.5


def batches(cursor: Cursor) -> Iterator[pa.RecordBatch]:
    """Everything a cursor gives now."""
    while cursor.next(STEP) is Code.UNSET:
        _, batch = cursor.read()
        assert isinstance(batch, pa.RecordBatch)
        yield records(batch)


def records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A row of a table stands at its version, as a record stands at its offset."""
    if "version" not in batch.schema.names:
        return batch
    columns = [batch.column(name) for name in ("version", "ts_ms", "data")]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


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


def scan(topic: TopicHandle, asked: Scan, gone: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    """A bounded look, or a live tail until `gone`; at most `limit` records."""
    left = asked.limit if asked.limit is not None else FOREVER_MS
    cursor = topic.open(Program(view(topic, asked), Mode.LIVE if asked.live else Mode.SNAPSHOT))
    try:
        while left > 0 and not gone():
            for batch in batches(cursor):
                yield batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0 or gone():
                    return
            if not asked.live:
                return
            topic.wait(cursor.position, WAIT_S)
    finally:
        cursor.close()


def view(topic: TopicHandle, asked: Scan) -> View:
    """What a scan's arguments mean for the topic as it is now."""
    if asked.from_ms is not None or asked.to_ms is not None:
        times = TimeRange(asked.from_ms or 0, FOREVER_MS if asked.to_ms is None else asked.to_ms)
        if not asked.live:
            return times
        if asked.to_ms is not None:
            raise ConfigError("expected no end time for a live scan", hint="leave out the end, or ask without live")
        cursor = topic.open(Program(times))
        cursor.close()
        return Seq(cursor.position)
    return Seq(start_offset(topic, asked.start))


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
