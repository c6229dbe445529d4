"""Reads by event time: late records and those without an event time are diverted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.engine.task_messages import StageTime
from gauss.contracts.letter import Letter
from gauss.model.names import (
    BEAT,
    DATA_COLUMN,
    END,
    EVENT,
    EVENT_MS,
    INC_COLUMN,
    OFFSET_COLUMN,
    ORDER,
    SOURCE_COLUMN,
    TS_MS_COLUMN,
    is_internal,
)
from gauss.stream.driver.planning.reads import FIRST, LAST, ORDERED, TimedRead
from gauss.stream.driver.planning.refs import TransformRef
from gauss.stream.driver.tasks.reading import (
    FORGET,
    HeartbeatPart,
    Part,
    Range,
    RestoredPart,
    dead_letter,
    engine,
    letter,
    read_judged,
)
from gauss.stream.engine.delivery.dead_letters import LATE

if TYPE_CHECKING:
    from gauss.contracts.time import PartialTransform

LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last time that all parts of Spark support."""
STAMP = pa.timestamp("us", "UTC")


def read_timed(plan: TimedRead, part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a range, of a heartbeat or of restored state."""
    match part:
        case HeartbeatPart():
            yield _marker(plan.schema(), part.time_ms)
        case RestoredPart():
            yield from pa.ipc.open_stream(part.partials)
        case Range():
            yield from _read_range(plan, part)


def _read_range(plan: TimedRead, part: Range) -> Iterator[pa.RecordBatch]:
    letters: list[Letter] = []
    seen, late, given = 0, 0, 0
    for batch in read_judged(plan, part, letters):
        kept, events, behind = _placed(plan, part, batch, letters)
        late += behind
        if not len(events):
            continue
        seen = max(seen, pc.max(events).as_py())
        made = plan.rows(part, kept, events, given)
        given += len(made)
        yield made
    if letters:
        dead_letter(plan, letters, part)
    staged = StageTime(
        plan.processor, plan.generation, part.topic, part.inc, part.start, part.stop, seen, late, part.partition
    )
    engine(plan.flight).stage_time(staged)


class Judge:
    """Decides which records of a batch are used; each other record is diverted once."""

    def __init__(self, plan: TimedRead, part: Range, batch: pa.RecordBatch, letters: list[Letter]) -> None:
        self._plan, self._part, self._batch, self._letters = plan, part, batch, letters
        self.bad = np.zeros(len(batch), bool)

    def divert(self, found: pa.BooleanArray, reason: str, detail: str, *, tell: bool = True) -> int:
        """Diverts the records of a mask that were good so far and returns their number; with `tell` each becomes a dead
        letter."""
        mask = found.fill_null(False).to_numpy(zero_copy_only=False) & ~self.bad
        if not mask.any():
            return 0
        self.bad |= mask
        batch = self._batch
        for index in np.flatnonzero(mask).tolist() if tell else ():
            where = (batch.column(OFFSET_COLUMN)[index].as_py(), batch.column(TS_MS_COLUMN)[index].as_py())
            data = batch.column(DATA_COLUMN)[index].as_py()
            self._letters.append(letter(self._plan, self._part, where, data, (reason, detail), stage="time"))
        return int(mask.sum())


def _placed(
    plan: TimedRead, part: Range, batch: pa.RecordBatch, letters: list[Letter]
) -> tuple[pa.RecordBatch, pa.Array, int]:
    """The records to use, their event times, and the number of late records."""
    time = plan.time
    events = _millis(batch.column(time.field or TS_MS_COLUMN))
    judge = Judge(plan, part, batch, letters)
    if time.field:
        judge.divert(events.is_null(), "no_event_time", f"{time.field}: is missing")
        far = pc.or_(pc.greater(events, LAST_MS), pc.less(events, -LAST_MS))
        judge.divert(far, "no_event_time", f"{time.field}: is not a time in ms")
    for name in time.required:
        judge.divert(batch.column(name).is_null(), "missing", f"{name}: is missing")
    behind, detail = pc.less(events, part.late_before), f"before the watermark {part.late_before}"
    late = judge.divert(behind, LATE, detail, tell=time.late_letters)
    if judge.bad.any():
        good = pa.array(~judge.bad)
        batch, events = batch.filter(good), events.filter(good)
    return batch, events, late


def _millis(column: pa.Array) -> pa.Array:
    """Event times in ms, from any type that a format decodes them to."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_floating(column.type):
        return pc.floor(column).cast(pa.int64(), safe=False)
    return column.cast(pa.int64())


def stamped(part: Range, batch: pa.RecordBatch, events: pa.Array) -> pa.RecordBatch:
    """The records with their event time and rank."""
    count = len(batch)
    order = [pa.repeat(pa.scalar(value, kind), count) for value, kind in _place(part)]
    order.append(batch.column(OFFSET_COLUMN))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {
        EVENT: pc.multiply(events, 1000).cast(STAMP),
        BEAT: pa.repeat(False, count),
        ORDER: pa.StructArray.from_arrays(order, fields=list(ORDERED)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _place(part: Range) -> list[tuple[int, pa.DataType]]:
    return [(_source(part), pa.int32()), (part.inc, pa.int64()), (0, pa.int32())]


def _source(part: Range) -> int:
    """The first part of a record's rank: records of the retry topic come after others of the same time."""
    return int(is_internal(part.topic))


def partials(ref: TransformRef, part: Range, batch: pa.RecordBatch, events: pa.Array) -> pa.RecordBatch:
    """The transform's partials of the records."""
    count = len(batch)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {EVENT_MS: events, SOURCE_COLUMN: pa.repeat(pa.scalar(_source(part), pa.int32()), count)}
    columns[INC_COLUMN] = pa.repeat(pa.scalar(part.inc, pa.int64()), count)
    given = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    made = _transform(msgspec.json.encode(ref)).partial(given)
    return made.append_column(BEAT, pa.repeat(False, len(made)))


@lru_cache(maxsize=32)
def _transform(ref: bytes) -> PartialTransform:
    transform, _ = msgspec.json.decode(ref, type=TransformRef).build()
    return cast("PartialTransform", transform)  # only plans with partials name it


FORGET.append(_transform.cache_clear)


def _marker(schema: pa.Schema, beat: int) -> pa.RecordBatch:
    """A heartbeat row: all nulls except its time."""
    stamp = pa.array([beat * 1000], pa.int64()).cast(STAMP)
    given = {EVENT: stamp, END: stamp, BEAT: pa.array([True]), FIRST: pa.array([beat]), LAST: pa.array([beat])}
    columns = [given.get(field.name, pa.nulls(1, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)
