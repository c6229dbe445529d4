"""A range of a partition, as a task of Spark reads, filters, maps and inserts it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError, DiskFull, GaussError, Unavailable
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.tables.insert import Waits, insert_block
from gauss.tables.mapped_table import MappedTable
from gauss.tables.rows import RowMapper

BOUNDS = Bounds(rows=65_536, bytes=32 << 20)
"""Of one block. The records alone decide where blocks end, so that a replay makes the same ones."""
MOST_LETTER_BYTES = 1 << 20
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
    """When to stop inserting, because the lease may be another's."""

    @property
    def is_check(self) -> bool:
        """A range without records: the table is prepared, and nothing is read."""
        return self.range.start == self.range.end


class RangeResult(NamedTuple):
    """What became of a range."""

    rows: int
    bytes: int
    letters: list[DeadLetter]
    newest_ms: int = 0
    """The time of the last record."""
    took_ms: int = 0


class Opened(NamedTuple):
    """What a process keeps of a version of a pipeline's config."""

    table: MappedTable
    mapper: RowMapper
    filter: RecordFilter | None
    reader: CompiledReader


_opened: dict[str, tuple[PipelineConfig, Opened]] = {}
"""By pipeline, with its config."""


def run(work: RangeWork) -> RangeResult:
    """Inserts a range exactly once, if the table has our columns. Raises Unavailable to try again (the range is unclear
    then), ConfigError if somebody must change something."""
    try:
        return _run(work)
    except (Unavailable, DiskFull):
        raise
    except GaussError:  # somebody may have changed the table: the next attempt prepares it again
        _forget(work.config.pipeline_id)
        raise


def _run(work: RangeWork) -> RangeResult:
    began = time.monotonic()
    stop_at = float("inf") if work.deadline is None else work.deadline.here()
    opened = _open(work.config)
    if work.is_check:
        return RangeResult(0, 0, [])
    try:
        found = _read(work, opened, work.range, stop_at)
    except OffsetOutOfRange as error:
        if not work.range.start < error.earliest:
            raise
        start = min(error.earliest, work.range.end)
        detail = f"offsets {work.range.start} to {start - 1} were deleted by the brokers before they were read"
        lost = DeadLetter(work.range.start, "read", "deleted", "", detail, None, 0)
        found = _read(work, opened, replace(work.range, start=start), stop_at)
        found = found._replace(letters=[lost, *found.letters])
    return found._replace(took_ms=int((time.monotonic() - began) * 1000))


def _read(work: RangeWork, opened: Opened, wanted: Range, stop_at: float) -> RangeResult:
    result = RangeResult(0, 0, [])
    start = wanted.start
    for batch in opened.reader.read(wanted, BOUNDS):
        stop = batch.column("offset")[-1].as_py() + 1
        result = _sum(result, _insert(work, opened, batch, (start, stop), stop_at))
        start = stop
    return result


def _sum(one: RangeResult, other: RangeResult) -> RangeResult:
    newest = max(one.newest_ms, other.newest_ms)
    return RangeResult(one.rows + other.rows, one.bytes + other.bytes, [*one.letters, *other.letters], newest)


def _insert(
    work: RangeWork, opened: Opened, batch: pa.RecordBatch, offsets: tuple[int, int], stop_at: float
) -> RangeResult:
    kept, letters = kept_records(opened.filter, batch)
    mapped = opened.mapper.rows(kept)
    start, stop = offsets
    if mapped is None:  # too large together
        middle = len(batch) // 2
        cut = batch.column("offset")[middle].as_py()
        left = _insert(work, opened, batch.slice(0, middle), (start, cut), stop_at)
        return _sum(left, _insert(work, opened, batch.slice(middle), (cut, stop), stop_at))
    block = RowBlock(
        work.config.pipeline_id, work.epoch, 0, work.inc, start, stop, mapped.groups, unclear=work.is_unclear
    )
    if clock() > stop_at:
        raise Unavailable(
            "the lease of the slot was not renewed in time", hint="the range is inserted by its next owner"
        )
    refused = insert_block(opened.table.store, block, Waits(work.settle_s))
    refusals = [*mapped.refusals, *refused]
    data, times = _by_offset(kept)
    letters += [
        DeadLetter(
            each.offset, each.stage, each.reason, each.column, each.detail, data[each.offset], times[each.offset]
        )
        for each in refusals
    ]
    bad = {each.offset for each in refusals}
    good = [len(value) for offset, value in data.items() if offset not in bad]
    letters = [each._replace(data=(each.data or b"")[:MOST_LETTER_BYTES]) if each.data else each for each in letters]
    return RangeResult(len(good), sum(good), letters, batch.column("ts_ms")[-1].as_py())


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
