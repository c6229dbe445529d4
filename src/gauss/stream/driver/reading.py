"""Ranges of a topic's records, decoded, with the dead letters that they hold: what every task begins with."""

from __future__ import annotations

import base64
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from gauss.model.closing import close_process
from gauss.model.details import capped
from gauss.stream.client import EngineClient
from gauss.stream.driver.plan import BLOCK_ROWS, FormatRef, ReadPlan
from gauss.stream.protocol import At, Ends, Read, StageDead, places, time_basis, versions

if TYPE_CHECKING:
    from gauss.contracts.format_guard import GuardedFormat

MAX_LETTER_BYTES = 1 << 20
MOST_NAME_BYTES = 128
"""How much of a column's name a letter holds: a record may bring its own schema."""
DEAD_BLOCK = 1_024
"""Dead letters are staged by fixed blocks of offsets, so that a replay replaces them block by block."""
DEAD_BYTES = 6 << 20
"""What the letters of one block may hold together; an action has a size limit."""
NEVER = -(2**63)
"""Before all time: where nothing is late."""
ORDERS = "_reads."
"""Topics whose records order reads of tables, as stream/orders.py has it, which is too heavy to load here."""
DECODE_BYTES = 8 << 20
"""Batches of a stream are put together up to this size before they are decoded: a call has a fixed cost."""


@lru_cache(maxsize=8)
def engine(flight: str) -> EngineClient:
    """One client per process and run; it opens its own connection after a fork."""
    return EngineClient.from_file(Path(flight))


@lru_cache(maxsize=32)
def freeze_once(_work: str, _generation: int) -> None:
    """Once per process and start of a query, after its first work: Spark collects garbage after every task, which
    went through all that was loaded meanwhile, a third of a worker's time."""
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=256)
def _format(ref: bytes) -> GuardedFormat:
    return msgspec.json.decode(ref, type=FormatRef).build()


FORGET: list[Callable[[], object]] = [_format.cache_clear]
"""Empties whatever keeps plugin objects from task to task."""


@contextmanager
def task() -> Iterator[None]:
    """The work of a task. A plugin object with a `close` lives no longer: nobody tells a worker that it ends."""
    try:
        yield
    finally:
        if close_process():
            for forget in FORGET:
                forget()


def format_of(ref: FormatRef) -> GuardedFormat:
    """The format, built once per process."""
    return _format(msgspec.json.encode(ref))


@dataclass
class Range(InputPartition):
    """Records [start, stop) of one topic."""

    topic: str
    inc: int
    start: int
    stop: int
    late_before: int = NEVER
    """Records that happened before this are late."""
    beat: int = 0
    """Not 0: no records, but a heartbeat of this time."""
    restored: bytes = b""
    """Not empty: no records, but partials as an Arrow stream."""
    tables: str = ""
    """The versions of the tables in which its task looks rows up, as JSON."""


def ranges(start: Ends, end: Ends, read: str = "offset", watermark_ms: int | None = None) -> list[Range]:
    """A pure function of the batch: cut at fixed multiples of a block, in topic order."""
    found = []
    basis = time_basis(end)
    late_before = basis - watermark_ms if watermark_ms is not None and basis else NEVER
    tables = msgspec.json.encode(looked_up, order="sorted").decode() if (looked_up := versions(end)) else ""
    for topic, stop in sorted(places(end).items()):
        begin = start.get(topic, At(stop.inc, 0))
        # Of a dead incarnation nothing is left: what there is lies in the current one.
        first = begin.off if begin.inc == stop.inc else 0
        if read == "latest" and not topic.startswith("_"):
            first = max(first, stop.off - 1)
        while first < stop.off:
            last = min((first // BLOCK_ROWS + 1) * BLOCK_ROWS, stop.off)
            found.append(Range(topic, stop.inc, first, last, late_before, tables=tables))
            first = last
        if stop.beat > begin.beat:
            found.append(Range(topic, stop.inc, stop.off, stop.off, beat=stop.beat))
    return found


@dataclass
class Ranges(InputPartition):
    """What one task reads, one after the other."""

    parts: list[Range]


def shared_out(found: list[Range], tasks: int) -> list[Ranges]:
    """Neighbouring ranges put together to a few tasks of like size, in order: a task costs Spark as much as decoding
    some ten thousand records."""
    made = [Ranges([]) for _ in range(min(tasks, len(found)))]
    total, before = sum(part.stop - part.start for part in found), 0
    for part in found:
        size = part.stop - part.start
        share = (before + size / 2) / max(total, 1)
        made[min(int(share * len(made)), len(made) - 1)].parts.append(part)
        before += size
    return [each for each in made if each.parts]


def rows_of(progress: Mapping[str, Any], start: Ends, read: str = "offset") -> int:
    """How many records a batch held, by its offsets. `start`: of batch 0."""
    found = 0
    for source in progress["sources"]:
        begin, end = (
            msgspec.json.decode(offset) if isinstance(offset, str) else offset
            for offset in (source["startOffset"], source["endOffset"])
        )
        parts = ranges(msgspec.convert(begin, Ends) if begin else start, msgspec.convert(end or {}, Ends), read)
        found += sum(part.stop - part.start for part in parts)
    return found


def read_decoded(plan: ReadPlan, part: Range) -> Iterator[pa.RecordBatch]:
    """The fields of a range's records beside `_ts_ms` and `_data`; those that can't be decoded are staged as dead
    letters of the range."""
    letters: list[dict[str, Any]] = []
    yield from read_judged(plan, part, letters)
    if letters:
        bury(plan, letters, part)
    freeze_once(f"reads {plan.processor}", plan.generation)


def read_judged(plan: ReadPlan, part: Range, letters: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """As `read_decoded`, for a caller that has letters of its own to bury with those of the decoder."""
    fields = plan.decoded()
    if part.topic.startswith(ORDERS):
        from gauss.stream.driver.table_reads import read_ordered

        for batch, is_encoded in read_ordered(plan, part):
            yield from decode(plan, batch, fields, part, letters) if is_encoded else (batch,)
        for each in letters:
            each["offset"] = part.start  # a row has no offset: it belongs to the order that read it
        return
    ticket = Read(part.topic, part.inc, part.start, part.stop, plan.processor, plan.generation)
    for batch in coalesced(engine(plan.flight).read(ticket)):
        yield from decode(plan, batch, fields, part, letters)


def coalesced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put together to pieces worth a decoder's call."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= DECODE_BYTES:
            yield pa.concat_batches(kept) if len(kept) > 1 else batch
            kept, size = [], 0
    if kept:
        yield pa.concat_batches(kept) if len(kept) > 1 else kept[0]


def decode(
    plan: ReadPlan,
    batch: pa.RecordBatch,
    fields: pa.Schema,
    part: Range,
    letters: list[dict[str, Any]],
    *,
    offsets: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The fields of records (offset, ts_ms, data), and letters for those that have none; in several batches where the
    records are too large together. `offsets`: with those in `_offset`."""
    offsets = offsets or plan.time is not None
    if plan.format is None or not len(fields):
        yield _beside(batch, {}, offsets)
        return
    for first, count, decoded in format_of(plan.format).decode_parts(batch.column(2), fields):
        some = batch.slice(first, count)
        for index, reason, detail in decoded.bad:
            where = (some.column(0)[index].as_py(), some.column(1)[index].as_py())
            letters.append(letter(plan, part, where, some.column(2)[index].as_py(), (reason, detail)))
        if decoded.bad or decoded.spread:
            some = some.take(pa.array(decoded.good))
        yield _beside(some, dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True)), offsets)


def _beside(records: pa.RecordBatch, columns: dict[str, pa.Array], offsets: bool) -> pa.RecordBatch:
    """Decoded columns with what is known of their records."""
    columns |= {"_ts_ms": records.column(1), "_data": records.column(2)}
    if offsets:
        columns["_offset"] = records.column(0)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def with_marks(batch: pa.RecordBatch, fields: pa.Schema) -> pa.RecordBatch:
    """The same columns; those that were asked for as JSON text of any value say so, for whoever writes them."""
    marks = {field.name: field.metadata for field in fields if field.metadata}
    if not marks:
        return batch
    given = [field.with_metadata(marks.get(field.name)) for field in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(given))


def letter(
    plan: ReadPlan,
    part: Range,
    where: tuple[int, int],
    raw: bytes,
    verdict: tuple[str, str],
    *,
    stage: str = "decode",
    column: str = "",
) -> dict[str, Any]:
    """A record's dead letter; `where` is its offset and time, `verdict` the reason and what was wrong."""
    (offset, ts_ms), (reason, detail) = where, verdict
    if not column and ": " in detail and " " not in detail.split(":", 1)[0]:
        column = detail.split(":", 1)[0]
    made = {
        "reason": reason,
        "detail": capped(detail),
        "stage": stage,
        "processor": plan.member or plan.processor,
        "topic": part.topic,
        "inc": part.inc,
        "offset": offset,
        "ts_ms": ts_ms,
        "column": capped(column, MOST_NAME_BYTES),
        "data": base64.b64encode(raw[:MAX_LETTER_BYTES]).decode(),
    }
    if len(raw) > MAX_LETTER_BYTES:
        made["truncated"] = len(raw)
    return made


def bury(plan: ReadPlan, letters: list[dict[str, Any]], part: Range) -> None:
    """Stages the dead letters of a range, to be published with its epoch."""
    blocks: dict[int, list[dict[str, Any]]] = {}
    for each in letters:
        blocks.setdefault(each["offset"] // DEAD_BLOCK, []).append(each)
    for number, block in sorted(blocks.items()):
        _fit(block)
        start, stop = max(part.start, number * DEAD_BLOCK), min(part.stop, (number + 1) * DEAD_BLOCK)
        engine(plan.flight).stage_dead(
            StageDead(plan.processor, plan.generation, part.topic, part.inc, start, stop, block)
        )


def _fit(block: list[dict[str, Any]]) -> None:
    """Cuts the bytes of huge letters so that a block fits into one action."""
    sizes = np.array([len(each["data"]) for each in block])
    if sizes.sum() <= DEAD_BYTES:
        return
    cap = DEAD_BYTES // len(block) // 4 * 4  # base64 is cut at whole groups
    for each in block:
        if len(each["data"]) > cap:
            each.setdefault("truncated", len(each["data"]) // 4 * 3)
            each["data"] = each["data"][:cap]
