"""Serves ranges of topics to Spark tasks, as record batches of about 1 MiB."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Generator, Iterator

import pyarrow as pa

from gauss.clients.engine.cursor_messages import Read
from gauss.contracts.cursor import Code, Cursor, Mode, OffsetRange, Output, Placed, Program, Seq, Step
from gauss.contracts.edge import TopicHandle
from gauss.model.errors import Collected, ConfigError, Rejected
from gauss.scan.codes import error_of
from gauss.scan.merge import rows
from gauss.stream.engine.delivery.batch_planning import Sources
from gauss.stream.engine.topics.topic import Topic

STEP = Step(limit=1 << 20, max_bytes=1 << 20, fill=False)
LARGE_CHUNK_BYTES = 256 << 10


def batches(cursor: Cursor) -> Generator[pa.RecordBatch, None, Code]:
    """All batches that a cursor returns now, and the code with which it ended."""
    while (code := cursor.next(STEP)) is Code.OK:
        _, item = cursor.read()
        if isinstance(item, list):
            yield from _chunk_batches(item)
        else:
            assert isinstance(item, pa.RecordBatch)
            yield item
    return code


def _chunk_batches(placed: list[Placed]) -> Iterator[pa.RecordBatch]:
    """Merges small chunks into one batch; a large one is a batch of its own, without a copy."""
    for large, group in itertools.groupby(placed, lambda each: each.chunk.nbytes >= LARGE_CHUNK_BYTES):
        if large:
            yield from (chunk.batch(offset) for offset, chunk in group)
        else:
            yield rows(list(group))


def program_of(read: Read, start: int, stop: int) -> Program:
    """The program of a ticket, restricted to the range; without one, the range's records as stored."""
    if not read.program:
        return Program(OffsetRange(start, stop), output=Output.CHUNKS)
    from gauss.scan.program.blob import decode_program  # imports the grammar

    made = decode_program(read.program)
    if made.view != Seq() or made.mode is not Mode.SNAPSHOT or made.output is not Output.ROWS:
        raise ConfigError(
            "the program of a ticket must not set a view, a mode or an output",
            hint="the ticket names the range; use a snapshot of rows over seq",
        )
    return dataclasses.replace(made, view=OffsetRange(start, stop))


def read_range(topic: Topic, sources: Sources, read: Read) -> Iterator[pa.RecordBatch]:
    """The records [start, stop) of one incarnation. For a processor, missing ones are counted as lost; for other
    readers they raise."""
    _check_range(read, topic.inc, topic.version())
    if read.inc != topic.inc:
        sources.lost_range(read, read.start, read.stop)
        return
    start, stop = read.start, min(read.stop, topic.version())
    while start < stop:
        if start < (floor := topic.floor()):
            sources.lost_range(read, start, min(floor, stop))
            start = min(floor, stop)
            continue
        try:
            cursor = topic.open(program_of(read, start, stop))
        except Collected:
            continue
        try:
            code = yield from batches(cursor)
            start = cursor.position
        finally:
            cursor.close()
        if code is Code.INVALID:
            return
        if code is Code.PANIC or start >= topic.floor():
            raise error_of(code, f'the read of topic "{read.topic}" was ended at offset {start}')


def _check_range(read: Read, inc: int, end: int) -> None:
    if not 0 <= read.start <= read.stop:
        raise ConfigError(f"expected offsets 0 ≤ start ≤ stop, found [{read.start}, {read.stop})")
    if read.processor:
        return
    if read.inc != inc:
        raise Rejected(
            f'topic "{read.topic}" no longer has incarnation {read.inc}',
            hint=f"ask for its offsets again: it is {inc}",
        )
    if read.stop > end:
        raise ConfigError(
            f"expected a range below {end}, found [{read.start}, {read.stop})",
            hint=f"the topic ends at offset {end}; end the range there, or wait for more records",
        )


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
