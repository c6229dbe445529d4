"""A range of a partition, as a task of Spark reads, filters, maps and inserts it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.errors import OffsetOutOfRange
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Bounds, Range
from gauss.contracts.evolution import Change
from gauss.contracts.table import RowBlock
from gauss.fleet.checks import table_of
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.config.filters import FiltersConfig, RecordFilter
from gauss.fleet.config.kafka import KafkaConfig
from gauss.fleet.leases.deadline import Deadline
from gauss.fleet.leases.keeper import clock
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.store.letters import DeadLetter
from gauss.fleet.worker.fences import OtherTopic, TooLate
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError, DiskFull, Fenced, GaussError, Unavailable
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.tables.insert import Waits, insert_block
from gauss.tables.mapped_table import MappedTable
from gauss.tables.rows import Refusal, RowMapper

BOUNDS = Bounds(rows=65_536, bytes=32 << 20)
"""Of one block. The records alone decide where blocks end, so that a replay makes the same ones."""
MOST_LETTER_BYTES = 1 << 20
MOST_LETTERS, MOST_LETTERS_BYTES = 10_000, 8 << 20
"""Of one attempt, a record more at most: they pass through the JVM and one transaction of the store."""
TURN_SECONDS = 2.0
"""An attempt ends behind the block that it has in hand after this time: other pipelines wait for its slot of Spark, and
what it has done is kept by its owner, whose lease is renewed meanwhile."""
PATIENCE_SECONDS = 2.0
"""How long a task waits for a server that refuses; its owner tries again later, without a slot of Spark."""
MOST_DETAIL = 2_000
_MARKS = {INC_COLUMN, OFFSET_COLUMN}


@dataclass(frozen=True)
class PipelineConfig:
    """The config of a pipeline at one version."""

    pipeline_id: str
    version: int
    kafka: KafkaConfig
    clickhouse: ClickHouseConfig
    mapping: Mapping
    filters: FiltersConfig


@dataclass(frozen=True)
class RangeWork:
    """A range to insert."""

    config: PipelineConfig
    range: Range
    inc: int
    epoch: int
    is_unclear: bool
    """Whether some rows may be in the table already."""
    settle_s: float
    """How long an insert of an earlier owner may still be under way."""
    deadline: Deadline | None = None
    """When to stop inserting, because the lease may be another's. Without leases attempts are as long."""

    @property
    def is_check(self) -> bool:
        """A range without records: the table is prepared, and nothing is read."""
        return self.range.start == self.range.end


class RangeResult(NamedTuple):
    """What became of a range."""

    rows: int
    bytes: int
    letters: list[DeadLetter]
    stop: int
    """The offset before which it is done: the end of the range, or of a block before it."""
    newest_ms: int = 0
    """The time of the last record."""
    took_ms: int = 0

    @property
    def letters_size(self) -> int:
        return sum(each.size for each in self.letters)

    @property
    def is_full(self) -> bool:
        """Whether it has as many letters as one attempt may have."""
        return len(self.letters) >= MOST_LETTERS or self.letters_size >= MOST_LETTERS_BYTES


class Opened(NamedTuple):
    """What a process keeps of a version of a pipeline's config."""

    table: MappedTable
    mapper: RowMapper
    filter: RecordFilter | None
    reader: CompiledReader


_opened: dict[str, tuple[PipelineConfig, Opened]] = {}
"""By pipeline, with its config."""
_admins: dict[str, Admin] = {}
"""By settings."""


def run(work: RangeWork) -> RangeResult:
    """Inserts a range exactly once, if the table has our columns, or the first blocks of it. Raises Unavailable or
    Fenced to try again (the range is unclear then), ConfigError if somebody must change something."""
    try:
        return _run(work)
    except (Unavailable, DiskFull, Fenced):
        raise
    except GaussError:  # somebody may have changed the table: the next attempt prepares it again
        _forget(work.config.pipeline_id)
        raise


class _Turn:
    """How long an attempt may go on."""

    def __init__(self, work: RangeWork) -> None:
        self._began = time.monotonic()
        self._stop_at = float("inf") if work.deadline is None else work.deadline.here()

    @property
    def ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    @property
    def is_over(self) -> bool:
        """Whether to leave the rest to the next attempt."""
        return self.ms > TURN_SECONDS * 1000 or clock() > self._stop_at

    def guard(self) -> None:
        """Before anything is inserted."""
        if clock() > self._stop_at:
            raise TooLate("the time of an attempt to insert a range was used up", hint="it is tried again, in parts")


def _run(work: RangeWork) -> RangeResult:
    turn = _Turn(work)
    turn.guard()  # the task may have been queued for long
    opened = _open(work.config)
    if work.is_check:
        return RangeResult(0, 0, [], work.range.end)
    try:
        found = _read(work, opened, work.range, turn)
    except OffsetOutOfRange as error:
        _expect_same_topic(work)
        if not work.range.start < error.earliest:
            raise
        start = min(error.earliest, work.range.end)
        rows, lost = _deleted(work, opened, start)
        found = _read(work, opened, replace(work.range, start=start), turn)
        found = found._replace(rows=found.rows + rows, letters=[*lost, *found.letters])
    return found._replace(took_ms=turn.ms)


def _deleted(work: RangeWork, opened: Opened, stop: int) -> tuple[int, list[DeadLetter]]:
    """The number of records before `stop` that an earlier attempt has inserted, and a letter about the others."""
    start = work.range.start
    rows = len(opened.table.store.present(work.inc, start, stop)) if work.is_unclear else 0
    if rows == stop - start:
        return rows, []
    detail = f"offsets {start} to {stop - 1} were deleted by the brokers before they were read"
    if rows:
        detail += f", except {rows} that are rows"
    return rows, [DeadLetter(start, "read", "deleted", "", detail, None, 0)]


def _read(work: RangeWork, opened: Opened, wanted: Range, turn: _Turn) -> RangeResult:
    result = RangeResult(0, 0, [], wanted.start)
    with closing(opened.reader.read(wanted, BOUNDS)) as batches:
        for batch in batches:
            _expect_same_topic(work)
            stop = batch.column("offset")[-1].as_py() + 1
            result = _sum(result, _insert(work, opened, batch, (result.stop, stop), turn))
            if result.stop < stop or result.is_full or turn.is_over:
                return result
    if result.stop < wanted.end:  # nothing is left but marks and gaps, unless a new topic ends here
        _expect_same_topic(work)
    return result._replace(stop=wanted.end)


def _expect_same_topic(work: RangeWork) -> None:
    """After reading, before inserting: a consumer goes on in a new topic of the same name without an error."""
    settings = work.config.kafka.settings()
    key = settings.model_dump_json()
    if key not in _admins:
        _admins[key] = Admin(settings)
    topic = work.range.topic
    found = _admins[key].topic_ids([topic])[topic]
    if isinstance(found, GaussError):
        raise found
    if found != work.range.topic_id:
        raise OtherTopic.of(topic)


def _sum(one: RangeResult, other: RangeResult) -> RangeResult:
    """Of two ranges that follow each other."""
    newest = max(one.newest_ms, other.newest_ms)
    letters = [*one.letters, *other.letters]
    return RangeResult(one.rows + other.rows, one.bytes + other.bytes, letters, other.stop, newest)


def _insert(
    work: RangeWork, opened: Opened, batch: pa.RecordBatch, offsets: tuple[int, int], turn: _Turn
) -> RangeResult:
    """Inserts a block, or the first half of it if its dead letters are too many."""
    kept, letters = kept_records(opened.filter, batch)
    mapped = opened.mapper.rows(kept)
    start, stop = offsets
    data, times = _by_offset(kept)
    if mapped is not None:
        letters += [_letter(each, data, times) for each in mapped.refusals]
    found = RangeResult(0, 0, [each.cut(MOST_LETTER_BYTES, MOST_DETAIL) for each in letters], stop)
    if len(batch) > 1 and (mapped is None or found.is_full):
        middle = len(batch) // 2
        cut = batch.column("offset")[middle].as_py()
        left = _insert(work, opened, batch.slice(0, middle), (start, cut), turn)
        if left.stop < cut or left.is_full:
            return left
        return _sum(left, _insert(work, opened, batch.slice(middle), (cut, stop), turn))
    assert mapped is not None
    place = (work.config.pipeline_id, work.epoch, 0, work.inc, start, stop)
    block = RowBlock(*place, mapped.groups, unclear=work.is_unclear, guard=turn.guard)
    refused = insert_block(opened.table.store, block, Waits(work.settle_s, PATIENCE_SECONDS))
    made = [_letter(each, data, times).cut(MOST_LETTER_BYTES, MOST_DETAIL) for each in refused]
    bad = {each.offset for each in (*mapped.refusals, *refused)}
    good = [len(value) for offset, value in data.items() if offset not in bad]
    return RangeResult(len(good), sum(good), [*found.letters, *made], stop, batch.column("ts_ms")[-1].as_py())


def _letter(refusal: Refusal, data: dict[int, bytes], times: dict[int, int]) -> DeadLetter:
    offset, stage, reason, column, detail = refusal
    return DeadLetter(offset, stage, reason, column, detail, data[offset], times[offset])


def _by_offset(records: pa.Table) -> tuple[dict[int, bytes], dict[int, int]]:
    offsets = records["offset"].to_pylist()
    return dict(zip(offsets, records["data"].to_pylist(), strict=True)), dict(
        zip(offsets, records["ts_ms"].to_pylist(), strict=True)
    )


def kept_records(condition: RecordFilter | None, batch: pa.RecordBatch) -> tuple[pa.Table, list[DeadLetter]]:
    """The records that become rows, and the letters of those that no filter can judge or that have no value."""
    letters = [
        DeadLetter(offset, "read", "tombstone", "", "the record has no value", None, ts_ms)
        for offset, ts_ms in _rows(batch.filter(pc.is_null(batch.column("data"))))
    ]
    batch = batch.filter(pc.is_valid(batch.column("data")))
    if condition is not None and len(batch):
        judged = condition.judge(batch.column("data"))
        for index, reason, detail in judged.bad:
            data = batch.column("data")[index].as_py()
            ts_ms = batch.column("ts_ms")[index].as_py()
            letters.append(DeadLetter(batch.column("offset")[index].as_py(), "filter", reason, "", detail, data, ts_ms))
        batch = batch.filter(pa.array(np.array(judged.keep, bool)))
    columns = [batch.column(field.name) for field in RECORD_SCHEMA]
    return pa.Table.from_arrays(columns, schema=RECORD_SCHEMA), letters


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    yield from zip(batch.column("offset").to_pylist(), batch.column("ts_ms").to_pylist(), strict=True)


def _open(config: PipelineConfig) -> Opened:
    """What this process keeps open. For one thread at a time."""
    known = _opened.get(config.pipeline_id)
    if known is not None and known[0] == config:
        return known[1]
    opened = open_config(config)
    _forget(config.pipeline_id)
    _opened[config.pipeline_id] = (config, opened)
    return opened


def _forget(pipeline_id: str) -> None:
    if (known := _opened.pop(pipeline_id, None)) is not None:
        known[1].table.store.close()


def open_config(config: PipelineConfig) -> Opened:
    """Prepares the table. Raises ConfigError if it can't be filled."""
    table = table_of(config.kafka, config.clickhouse, config.mapping)
    lacking = prepare(table, create=config.clickhouse.create_table_if_missing)
    table.store.open(table.target, lacking)
    conditions, kafka = config.filters, config.kafka
    made = RecordFilter(conditions.expression, kafka.format, kafka.format_config) if conditions.enabled else None
    return Opened(table, RowMapper(table, lacking), made, CompiledReader(kafka.settings()))


def prepare(table: MappedTable, *, create: bool) -> list[str]:
    """Creates a missing table, adds missing columns to one that has ours, and returns the columns that a table of the
    user's lacks: only ours may be lacking there, and it is never changed."""
    found = table.store.differences(table.target)
    if found is None and not create:
        raise ConfigError(f"the table {table.name} is missing", hint="create it, or set createTableIfMissing")
    added = {each.name for each in found or () if each.change is Change.ADD}
    if found is None or not added & _MARKS:
        return table.store.prepare(table.target)
    if refused := [each for each in found if each.change is Change.TYPE or (each.name in added - _MARKS)]:
        raise ConfigError(
            f"the table {table.name} differs from the mapping: {'; '.join(map(str, refused))}",
            hint="change the table or the mapping",
        )
    return sorted(added)


def unclear(work: RangeWork) -> RangeWork:
    """The same range after an attempt whose end is unknown."""
    return replace(work, is_unclear=True)
