"""Ranges for Spark's tasks, as record batches of about a MiB."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.contracts.cursor import Code, Cursor, Mode, OffsetRange, Output, Program, Seq, Step
from gauss.contracts.edge import TopicHandle
from gauss.model.errors import Collected, ConfigError, Rejected
from gauss.scan.codes import error_of
from gauss.stream.protocol import Read

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine

STEP = Step(limit=1 << 20, max_bytes=1 << 20, fill=False)


def batches(cursor: Cursor) -> Generator[pa.RecordBatch, None, Code]:
    """Everything a cursor gives now, and why it gives no more."""
    while (code := cursor.next(STEP)) is Code.UNSET:
        _, batch = cursor.read()
        assert isinstance(batch, pa.RecordBatch)
        yield batch
    return code


def program_of(read: Read, start: int, stop: int) -> Program:
    """The program that a ticket stands for: what it brings, over the range, else the range's records as they are."""
    if not read.program:
        return Program(OffsetRange(start, stop))
    from gauss.scan.program.blob import decode_program  # brings the grammar

    made = decode_program(read.program)
    if made.view != Seq() or made.mode is not Mode.SNAPSHOT or made.output is not Output.ROWS:
        raise ConfigError(
            "the program of a ticket has a view, a mode or an output of its own",
            hint="the ticket names the range: leave the program at a snapshot of rows over seq",
        )
    return dataclasses.replace(made, view=OffsetRange(start, stop))


def read_range(engine: Engine, read: Read) -> Iterator[pa.RecordBatch]:
    """Records [start, stop) of one incarnation. What is not there any more is counted as lost for a processor; anybody
    else is refused."""
    topic = engine.topic(read.topic)
    if read.processor:
        engine.publisher.check_generation(read.processor, read.generation)
    _check_range(read, topic.inc, topic.version())
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
            f'topic "{read.topic}" has no incarnation {read.inc} any more',
            hint=f"ask for its offsets again: it is {inc}",
        )
    if read.stop > end:
        raise ConfigError(
            f"expected a range below {end}, found [{read.start}, {read.stop})",
            hint=f"the topic ends at offset {end}: end the range there, or wait for more",
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
