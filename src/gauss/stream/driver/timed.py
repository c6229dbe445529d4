"""Reading by event time: late records and those without a place are diverted, the others may be aggregated at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.time import BEAT, END, EVENT, EVENT_MS, INC, OFFSET, ORDER, SOURCE
from gauss.stream.driver.blocks import blocks
from gauss.stream.driver.plan import FIRST, LAST, ORDERED, ReadPlan, TimePlan, TransformRef
from gauss.stream.driver.reading import FORGET, Range, bury, engine, letter, read_judged
from gauss.stream.engine.dead import LATE
from gauss.stream.protocol import StageTime

if TYPE_CHECKING:
    from gauss.contracts.time import PartialTransform

LAST_MS = 253_402_300_799_999
"""The end of the year 9999, which every part of Spark can hold."""
STAMP = pa.timestamp("us", "UTC")


def read_timed(plan: ReadPlan, part: Range) -> Iterator[pa.RecordBatch]:
    """A range's records, or partials of them, with their event time; or the heartbeat that the range stands for."""
    assert plan.time is not None
    if part.beat:
        yield _marker(plan.schema(), part.beat)
        return
    if part.restored:
        yield from pa.ipc.open_stream(part.restored)
        return
    letters: list[dict[str, Any]] = []
    seen, late, given = 0, 0, 0
    for batch in read_judged(plan, part, letters):
        kept, events, behind = _placed(plan, plan.time, part, batch, letters)
        late += behind
        if not len(events):
            continue
        seen = max(seen, pc.max(events).as_py())
        if plan.time.partial is not None:
            yield _partial(plan.time, part, kept, events)
        elif plan.time.blocks_ms:
            made = blocks(plan, part, kept, events, given)
            given += len(made)
            yield made
        else:
            yield _stamped(part, kept, events)
    if letters:
        bury(plan, letters, part)
    told = StageTime(plan.processor, plan.generation, part.topic, part.inc, part.start, part.stop, seen, late)
    engine(plan.flight).stage_time(told)


class Judge:
    """Says of each record of a batch whether it counts; each that does not is told of once."""

    def __init__(self, plan: ReadPlan, part: Range, batch: pa.RecordBatch, letters: list[dict[str, Any]]) -> None:
        self._plan, self._part, self._batch, self._letters = plan, part, batch, letters
        self.bad = np.zeros(len(batch), bool)

    def divert(self, found: pa.BooleanArray, reason: str, detail: str, *, tell: bool = True) -> int:
        """How many records this holds for that were good so far; with `tell` each becomes a dead letter."""
        mask = found.fill_null(False).to_numpy(zero_copy_only=False) & ~self.bad
        if not mask.any():
            return 0
        self.bad |= mask
        batch = self._batch
        for index in np.flatnonzero(mask).tolist() if tell else ():
            where = (batch.column(OFFSET)[index].as_py(), batch.column("_ts_ms")[index].as_py())
            data = batch.column("_data")[index].as_py()
            self._letters.append(letter(self._plan, self._part, where, data, (reason, detail), stage="time"))
        return int(mask.sum())


def _placed(
    plan: ReadPlan, time: TimePlan, part: Range, batch: pa.RecordBatch, letters: list[dict[str, Any]]
) -> tuple[pa.RecordBatch, pa.Array, int]:
    """The records that count, their event times, and how many were late."""
    events = _millis(batch.column(time.field or "_ts_ms"))
    judge = Judge(plan, part, batch, letters)
    if time.field:
        judge.divert(events.is_null(), "no_event_time", f"{time.field}: is missing")
        far = pc.or_(pc.greater(events, LAST_MS), pc.less(events, -LAST_MS))
        judge.divert(far, "no_event_time", f"{time.field}: is no time in ms")
    for name in time.required:
        judge.divert(batch.column(name).is_null(), "missing", f"{name}: is missing")
    behind, detail = pc.less(events, part.late_before), f"before the watermark {part.late_before}"
    late = judge.divert(behind, LATE, detail, tell=time.late_letters)
    if judge.bad.any():
        good = pa.array(~judge.bad)
        batch, events = batch.filter(good), events.filter(good)
    return batch, events, late


def _millis(column: pa.Array) -> pa.Array:
    """Event times in ms, whatever the format makes of them."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_floating(column.type):
        return pc.floor(column).cast(pa.int64(), safe=False)
    return column.cast(pa.int64())


def _stamped(part: Range, batch: pa.RecordBatch, events: pa.Array) -> pa.RecordBatch:
    """The records themselves, with their time and their order."""
    count = len(batch)
    order = [pa.repeat(pa.scalar(value, kind), count) for value, kind in _place(part)]
    order.append(batch.column(OFFSET))
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
    """Records from the retry inlet come behind the others of the same time."""
    return int(part.topic.startswith("_"))


def _partial(time: TimePlan, part: Range, batch: pa.RecordBatch, events: pa.Array) -> pa.RecordBatch:
    """What the transform makes of the records, with the columns that were announced."""
    count = len(batch)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {EVENT_MS: events, SOURCE: pa.repeat(pa.scalar(_source(part), pa.int32()), count)}
    columns[INC] = pa.repeat(pa.scalar(part.inc, pa.int64()), count)
    given = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    made = _transform(msgspec.json.encode(time.partial)).partial(given)
    return made.append_column(BEAT, pa.repeat(False, len(made)))


@lru_cache(maxsize=32)
def _transform(ref: bytes) -> PartialTransform:
    transform, _ = msgspec.json.decode(ref, type=TransformRef).build()
    return transform  # type: ignore[return-value]  # the plan names only those that are


FORGET.append(_transform.cache_clear)


def _marker(schema: pa.Schema, beat: int) -> pa.RecordBatch:
    """A heartbeat: a row of nulls at its time."""
    stamp = pa.array([beat * 1000], pa.int64()).cast(STAMP)
    given = {EVENT: stamp, END: stamp, BEAT: pa.array([True]), FIRST: pa.array([beat]), LAST: pa.array([beat])}
    columns = [given.get(field.name, pa.nulls(1, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)
