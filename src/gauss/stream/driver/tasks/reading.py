"""Reads and decodes ranges of topics in tasks, and stages dead letters for records that cannot be decoded."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.positions import (
    At,
    Ends,
    places,
    time_basis,
    topic_of,
    versions,
)
from gauss.clients.engine.task_messages import StageDead
from gauss.contracts.letter import Letter
from gauss.model.closing import close_process
from gauss.model.details import capped
from gauss.model.errors import traced
from gauss.model.names import (
    DATA_COLUMN,
    HEADERS_COLUMN,
    KEY_COLUMN,
    OFFSET_COLUMN,
    TS_MS_COLUMN,
    is_internal,
    is_orders_topic,
    retrying_processor,
)
from gauss.stream.driver.planning.reads import BLOCK_ROWS, RangeRead
from gauss.stream.driver.planning.refs import BESIDE, MARK, FormatRef

if TYPE_CHECKING:
    from gauss.contracts.format_guard import GuardedFormat

MOST_NAME_BYTES = 128
"""Maximum length of a column name in a dead letter: a record may contain its own schema."""
DEAD_BLOCK = 1_024
"""Dead letters are staged in fixed blocks of offsets, so that a repeated epoch replaces them block by block."""
DEAD_BYTES = 6 << 20
"""Maximum size of the letters of one block, because an action has a size limit."""
NEVER = -(2**63)
"""A bound before all event times: no record is late."""
EXTRAS = {"key": KEY_COLUMN, "headers": HEADERS_COLUMN}
"""Optional parts of a record, and the hidden column of each among decoded fields."""
DECODE_BYTES = 8 << 20
"""Batches are concatenated up to this size before decoding, because each call has a fixed cost."""


@lru_cache(maxsize=8)
def engine(flight: str) -> EngineClient:
    """The engine client of the process; it opens a new connection after a fork."""
    return EngineClient.from_file(Path(flight))


@lru_cache(maxsize=32)
def freeze_once(_work: str, _generation: int) -> None:
    """Freezes loaded objects, once per process and start of a query: Spark collects garbage after every task, and
    scanning everything that is loaded took a third of a worker's time."""
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=256)
def _format(ref: bytes) -> GuardedFormat:
    return msgspec.json.decode(ref, type=FormatRef).build()


FORGET: list[Callable[[], object]] = [_format.cache_clear]
"""Functions that clear the caches of plugin objects."""


@contextmanager
def task() -> Iterator[None]:
    """Scope of a task. Plugin objects with a `close` are closed at its end: a worker gets no notice of its exit."""
    try:
        with traced():
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
    """Records [start, stop) of one partition of a topic."""

    topic: str
    inc: int
    start: int
    stop: int
    late_before: int = NEVER
    """Records with an earlier event time are late."""
    tables: str = ""
    """Versions of the lookup tables, as JSON."""
    partition: int = 0
    since: int | None = None
    """Only the newest record is wanted. If the range has none, which may be so in outside systems, it is the newest one
    from this offset on."""

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass
class HeartbeatPart(InputPartition):
    """A heartbeat: an event time that a topic has reached without records."""

    time_ms: int
    size = 0


@dataclass
class RestoredPart(InputPartition):
    """Partials that precede the first batch, as an Arrow stream."""

    partials: bytes
    size = 0


Part = Range | HeartbeatPart | RestoredPart
"""A part of a batch, as the reader of a query gets it."""


def ranges(start: Ends, end: Ends, read: str = "offset", watermark_ms: int | None = None) -> list[Range]:
    """The ranges of a batch in order of topic and partition, cut at fixed multiples of BLOCK_ROWS. A pure function."""
    found = []
    basis = time_basis(end)
    late_before = basis - watermark_ms if watermark_ms is not None and basis else NEVER
    tables = msgspec.json.encode(looked_up, order="sorted").decode() if (looked_up := versions(end)) else ""
    for key, stop in sorted(places(end).items(), key=lambda item: (topic_of(item[0]), item[1].partition)):
        topic, begin = topic_of(key), start.get(key, At(stop.inc, 0))
        # The records of an earlier incarnation are gone: read the current one from its start.
        first, since = begin.off if begin.inc == stop.inc else 0, None
        if read == "latest" and not is_internal(topic):
            first, since = max(first, stop.off - 1), first
        while first < stop.off:
            last = min((first // BLOCK_ROWS + 1) * BLOCK_ROWS, stop.off)
            found.append(Range(topic, stop.inc, first, last, late_before, tables, stop.partition, since))
            first = last
    return found


def heartbeats(start: Ends, end: Ends) -> list[HeartbeatPart]:
    """The heartbeats of a batch."""
    found = sorted(places(end).items())
    return [HeartbeatPart(stop.beat) for key, stop in found if stop.beat > start.get(key, At(stop.inc, 0)).beat]


@dataclass
class Ranges(InputPartition):
    """The parts that one task reads, in order."""

    parts: list[Part]


def distribute(found: list[Part], tasks: int) -> list[Ranges]:
    """Distributes parts to tasks of similar size, in order. The overhead of a Spark task equals the decoding of some
    ten thousand records."""
    made = [Ranges([]) for _ in range(min(tasks, len(found)))]
    total, before = sum(part.size for part in found), 0
    for part in found:
        size = part.size
        share = (before + size / 2) / max(total, 1)
        made[min(int(share * len(made)), len(made) - 1)].parts.append(part)
        before += size
    return [each for each in made if each.parts]


def rows_of(progress: Mapping[str, Any], start: Ends, read: str = "offset") -> int:
    """The number of records in a batch, by its offsets. `start`: the start of batch 0."""
    found = 0
    for source in progress["sources"]:
        begin, end = (
            msgspec.json.decode(offset) if isinstance(offset, str) else offset
            for offset in (source["startOffset"], source["endOffset"])
        )
        parts = ranges(msgspec.convert(begin, Ends) if begin else start, msgspec.convert(end or {}, Ends), read)
        found += sum(part.size for part in parts)
    return found


def read_decoded(plan: RangeRead, part: Range) -> Iterator[pa.RecordBatch]:
    """The decoded records of a range with `_ts_ms` and `_data`; records that cannot be decoded are staged as dead
    letters."""
    letters: list[Letter] = []
    yield from read_judged(plan, part, letters)
    if letters:
        dead_letter(plan, letters, part)
    freeze_once(f"reads {plan.processor}", plan.generation)


def read_judged(plan: RangeRead, part: Range, letters: list[Letter]) -> Iterator[pa.RecordBatch]:
    """Like `read_decoded`, but adds dead letters to `letters`; the caller stages them."""
    fields = plan.decoded()
    if is_orders_topic(part.topic):
        from gauss.stream.driver.tasks.table_reads import read_ordered

        for rows in read_ordered(plan, part):
            of = replace(part, partition=rows.partition)
            yield from decode(plan, rows.batch, fields, of, letters) if rows.encoded else (rows.batch,)
        for each in letters:
            each.offset = part.start  # a row has no offset: use that of the order that read it
        return
    for batch in coalesced(read_records(plan, part)):
        yield from decode(plan, batch, fields, part, letters)


def read_records(plan: RangeRead, part: Range, others: Mapping[str, int] | None = None) -> Iterator[pa.RecordBatch]:
    """The records of a range as they are stored. `others`: processors that get them too, with their generations."""
    if part.topic in plan.outside:
        from gauss.stream.driver.tasks.outside_topics import read_partition

        return read_partition(plan, part, others or {})
    ticket = Read(part.topic, part.inc, part.start, part.stop, plan.processor, plan.generation)
    return engine(plan.flight).read(ticket)


def coalesced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches concatenated to at least DECODE_BYTES each."""
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
    plan: RangeRead,
    batch: pa.RecordBatch,
    fields: pa.Schema,
    part: Range,
    letters: list[Letter],
    *,
    offsets: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Decodes records (offset, ts_ms, data) and adds a letter for each that fails; several batches if the result is
    too large for one. `offsets`: whether to include the column `_offset`."""
    offsets = offsets or plan.with_offsets
    beside = [field for field in fields if BESIDE in (field.metadata or ())]
    partition = None if retrying_processor(part.topic) else part.partition
    if beside:
        from gauss.stream.driver.tasks.record_meta import meta_columns

        fields = pa.schema([field for field in fields if field not in beside])
    if plan.format is None or not len(fields):
        yield _beside(batch, meta_columns(batch, beside, partition) if beside else {}, offsets)
        return
    for first, count, decoded in format_of(plan.format).decode_parts(batch.column(2), fields):
        some = batch.slice(first, count)
        for index, reason, detail in decoded.bad:
            where = (some.column(0)[index].as_py(), some.column(1)[index].as_py())
            letters.append(letter(plan, part, where, some.column(2)[index].as_py(), (reason, detail)))
        if decoded.bad or decoded.spread:
            some = some.take(pa.array(decoded.good))
        columns = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        yield _beside(some, columns | (meta_columns(some, beside, partition) if beside else {}), offsets)


def extras(records: pa.RecordBatch) -> dict[str, pa.Array]:
    """The keys and headers of records under the names of their hidden columns; empty if there are none."""
    return {hidden: records.column(name) for name, hidden in EXTRAS.items() if name in records.schema.names}


def _beside(records: pa.RecordBatch, columns: dict[str, pa.Array], offsets: bool) -> pa.RecordBatch:
    """Decoded columns together with the hidden columns of their records."""
    columns |= {TS_MS_COLUMN: records.column(1), DATA_COLUMN: records.column(2)}
    if offsets:
        columns[OFFSET_COLUMN] = records.column(0)
    columns |= extras(records)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def with_marks(batch: pa.RecordBatch, fields: pa.Schema) -> pa.RecordBatch:
    """The batch with the metadata of `fields`, which tells the encoder which columns hold values as JSON text."""
    marks = {field.name: field.metadata for field in fields if field.metadata and MARK.encode() in field.metadata}
    if not marks:
        return batch
    given = [field.with_metadata(marks.get(field.name)) for field in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(given))


def letter(
    plan: RangeRead,
    part: Range,
    where: tuple[int, int],
    raw: bytes,
    verdict: tuple[str, str],
    *,
    stage: str = "decode",
    column: str = "",
) -> Letter:
    """The dead letter of a record; `where` is its offset and time, `verdict` the reason and the detail."""
    (offset, ts_ms), (reason, detail) = where, verdict
    if not column and ": " in detail and " " not in detail.split(":", 1)[0]:
        column = detail.split(":", 1)[0]
    return Letter(
        reason=reason,
        detail=detail,
        stage=stage,
        processor=plan.member or plan.processor,
        data=raw,
        topic=part.topic,
        inc=part.inc,
        offset=offset,
        ts_ms=ts_ms,
        column=capped(column, MOST_NAME_BYTES),
        partition=part.partition or msgspec.UNSET,
    )


def dead_letter(plan: RangeRead, letters: list[Letter], part: Range) -> None:
    """Stages the dead letters of a range, to be published with its epoch."""
    blocks: dict[int, list[Letter]] = {}
    for each in letters:
        blocks.setdefault(each.offset // DEAD_BLOCK, []).append(each)
    for number, block in sorted(blocks.items()):
        _fit(block)
        start, stop = max(part.start, number * DEAD_BLOCK), min(part.stop, (number + 1) * DEAD_BLOCK)
        engine(plan.flight).stage_dead(
            StageDead(plan.processor, plan.generation, part.topic, part.inc, start, stop, block, part.partition)
        )


def _fit(block: list[Letter]) -> None:
    """Truncates the data of large letters so that a block, in base64, fits into one action."""
    if sum(len(each.data) for each in block) * 4 // 3 > DEAD_BYTES:
        for each in block:
            each.cut(DEAD_BYTES // len(block) * 3 // 4)
