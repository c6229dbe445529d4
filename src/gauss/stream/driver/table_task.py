"""Rows of a table's inbox: ranges decoded, mapped and inserted, once; what does not fit is staged as dead letters."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gauss.clients.errors import RowError
from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format_batch import batched
from gauss.contracts.table import Block, Group, TableStore
from gauss.mapping.columns import ColumnMap
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import DiskFull, Unavailable
from gauss.model.paths import DataDir
from gauss.stream.child import assignment
from gauss.stream.driver.plan import ReadPlan, TablePlan, TableWork
from gauss.stream.driver.reading import FORGET, Range, bury, coalesced, engine, letter, ranges
from gauss.stream.protocol import Claimed, Grant, Read
from gauss.stream.tables import TableTopic, table_topic

PATIENCE_S = 10.0
"""So long a task waits for a server that is away, in its first attempt; then its query does, and says so."""
MOST_ROWS_BYTES = 256 << 20
"""What the rows of a range may take; records that take more once they are decoded go in by halves of their range."""
RETRY_TOPICS = "_retry."

log = logging.getLogger(__name__)


class Waits(NamedTuple):
    """How long an insert may be under way unseen, and how long a server may be away."""

    settle_s: float
    patience_s: float = PATIENCE_S


class Refusal(NamedTuple):
    """A record that the table does not take, and why."""

    offset: int
    stage: str
    reason: str
    column: str
    detail: str


@dataclass(frozen=True)
class Opened:
    """A table and how records become its rows."""

    topic: TableTopic
    columns: ColumnMap
    fields: pa.Schema
    lacking: frozenset[str]


_open: OrderedDict[tuple[object, ...], Opened] = OrderedDict()
KEPT_TABLES = 4


def opened_table(work: TableWork) -> Opened:
    """Once per process and plan."""
    key = (work.data_dir, work.topic, *work.lacking)
    if key not in _open:
        paths = DataDir(Path(work.data_dir))
        given = assignment(paths)
        found = table_topic(given.pipeline, work.topic, given.base_dir, paths)
        found.store.open(found.target, work.lacking)
        _open[key] = Opened(found, found.columns(), arrow_schema(found.decoded), frozenset(work.lacking))
        while len(_open) > KEPT_TABLES:
            _open.popitem(last=False)[1].topic.store.close()
    return _open[key]


def _forget() -> None:
    """Closes every table."""
    while _open:
        _open.popitem()[1].topic.store.close()


FORGET.append(_forget)


def inbox_inc(topic: str, inc: int) -> int:
    """The incarnation as rows have it: replayed letters have offsets of their own, and below 0 they can't be taken for
    those of the inbox."""
    return -inc if topic.startswith(RETRY_TOPICS) else inc


class _Rows(NamedTuple):
    """A range's records and what is to be inserted of them."""

    records: pa.Table
    groups: tuple[Group, ...]
    refusals: list[Refusal]


class Filling:
    """Inserts epochs for one claim."""

    def __init__(self, plan: TablePlan, claimed: Claimed) -> None:
        self._work, self._claimed = plan.work, claimed
        self._read = ReadPlan(
            flight=plan.flight, processor=plan.processor, generation=claimed.generation, start=claimed.start
        )
        self._opened = opened_table(plan.work)

    def fill(self, grant: Grant) -> None:
        """Inserts the ranges of an epoch one after the other; while the server takes one, the next is read and
        decoded."""
        parts = ranges(grant.start, grant.end)
        for part, rows in zip(parts, self._ahead(parts), strict=True):
            self._fill(grant, part, rows)

    def _fill(self, grant: Grant, part: Range, rows: _Rows | None) -> None:
        """Inserts a range whole, or by halves where its rows are too large together: a replay makes the same blocks."""
        if rows is not None:
            self._insert(grant, part, rows)
            return
        middle = (part.start + part.stop) // 2
        for half in (replace(part, stop=middle), replace(part, start=middle)):
            self._fill(grant, half, self._rows(half))

    def _ahead(self, parts: Sequence[Range]) -> Iterator[_Rows | None]:
        if len(parts) == 1:
            yield self._rows(parts[0])
            return
        with ThreadPoolExecutor(1, "ahead") as pool:
            coming: deque[Future[_Rows | None]] = deque()
            for part in parts:
                coming.append(pool.submit(self._rows, part))
                if len(coming) > 1:
                    yield coming.popleft().result()
            if coming:
                yield coming.popleft().result()

    def _rows(self, part: Range) -> _Rows | None:
        """A range's rows; None if they are too large together."""
        read = self._read
        ticket = Read(part.topic, part.inc, part.start, part.stop, read.processor, read.generation)
        records = _records(engine(read.flight).read(ticket))
        mapped = _mapped(self._opened, records)
        return None if mapped is None else _Rows(records, *mapped)

    def _insert(self, grant: Grant, part: Range, rows: _Rows) -> None:
        """Inserts a range's rows and stages the dead letters among its records."""
        before, settled = self._claimed.rewound.get(part.topic), grant.settled.get(part.topic)
        rewound = before is not None and before.inc == part.inc and part.start < before.off
        block = Block(
            processor=self._read.processor,
            generation=self._read.generation,
            epoch=grant.epoch,
            inc=inbox_inc(part.topic, part.inc),
            start=part.start,
            stop=part.stop,
            groups=rows.groups,
            settled=settled.off if settled is not None and settled.inc == part.inc else 0,
            unclear=rewound or grant.again,
            rewound=rewound,
        )
        patience = 0.0 if grant.again else PATIENCE_S
        refused = put(self._opened.topic.store, block, Waits(self._work.settle_s, patience))
        if refusals := [*rows.refusals, *refused]:
            _bury(self._read, part, rows.records, refusals)


def _records(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    pieces = list(coalesced(batches))
    if not pieces:
        return RECORD_SCHEMA.empty_table()
    return pa.Table.from_batches(pieces)


def _mapped(opened: Opened, records: pa.Table) -> tuple[tuple[Group, ...], list[Refusal]] | None:
    """The table's columns of a range's records, in groups, and the records that do not become rows; None if several
    records take more than MOST_ROWS_BYTES together."""
    refusals: list[Refusal] = []
    made: dict[str, list[Group]] = {}
    size = 0
    for batch, rows, good in _decoded(opened, records, refusals):
        offsets, times = batch.column(0).to_numpy(), batch.column(1)
        if len(good) != len(offsets) or not np.array_equal(good, np.arange(len(offsets))):
            times = times.take(pa.array(good))
        row_offsets = offsets[good]
        found, bad = opened.columns.run(rows, times)
        refused = {int(row_offsets[each.row]): each for each in reversed(bad)}
        refusals += [Refusal(at, "map", each.reason, each.column, each.detail) for at, each in refused.items()]
        for group in found:
            kept = _without_lacking(
                opened, Group(row_offsets[group.rows], pa.Table.from_batches([group.columns])), refusals
            )
            if refused:
                keep = ~np.isin(kept.offsets, list(refused))
                kept = Group(kept.offsets[keep], kept.rows.filter(pa.array(keep)))
            if len(kept.offsets):
                size += kept.rows.nbytes
                if size > MOST_ROWS_BYTES and len(records) > 1:
                    return None
                left_out = [each.target.name for each in opened.columns.columns]
                part = ",".join(name for name in left_out if name not in group.columns.schema.names)
                made.setdefault(part, []).append(kept)
    groups = [
        Group(np.concatenate([each.offsets for each in parts]), pa.concat_tables([each.rows for each in parts]), part)
        for part, parts in made.items()
    ]
    return tuple(groups), refusals


def _decoded(
    opened: Opened, records: pa.Table, refusals: list[Refusal]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch, np.ndarray]]:
    """Some of the records, their rows, and the record of each."""
    for batch in records.to_batches():
        data = batch.column(2)
        if opened.topic.format is None:
            yield batch, pa.RecordBatch.from_arrays([data], ["payload"]), np.arange(len(data))
            continue
        for first, count, decoded in batched(opened.topic.format).decode_parts(data, opened.fields):
            some = batch.slice(first, count)
            offsets = some.column(0).to_numpy()
            refusals += [Refusal(int(offsets[at]), "decode", reason, "", detail) for at, reason, detail in decoded.bad]
            yield some, decoded.rows, decoded.good


def _without_lacking(opened: Opened, group: Group, refusals: list[Refusal]) -> Group:
    """Leaves out the columns that the table lacks; with `reject_row`, also the records that have a value there."""
    offsets, rows, part = group
    for name in opened.lacking.intersection(rows.schema.names):
        if opened.topic.config.evolve == "reject_row":
            given = rows[name].is_valid().to_numpy()
            refusals += [
                Refusal(int(at), "map", "no_column", name, f"{name}: the table has no such column")
                for at in np.unique(offsets[given])
            ]
            keep = ~np.isin(offsets, offsets[given])
            offsets, rows = offsets[keep], rows.filter(pa.array(keep))
        rows = rows.drop_columns([name])
    return Group(offsets, rows, part)


def put(store: TableStore, block: Block, waits: Waits) -> list[Refusal]:
    """Inserts a block. Of rows that do not fit, those that can't be sent are found here, those that the server refuses
    along fixed halves of the range: a replay makes the same blocks."""
    if not block.groups:
        return []
    try:
        _insert(store, block, waits)
        return []
    except RowError as error:
        if unfit := [found for group in block.groups for found in _unfit(store, group)]:
            return [*unfit, *put(store, block.without([found.offset for found in unfit]), waits)]
        if block.stop - block.start == 1:
            return [_refusal(block.start, error)]
    middle = (block.start + block.stop) // 2
    halves = (block.between(block.start, middle), block.between(middle, block.stop))
    return [found for half in halves for found in put(store, half, waits)]


def _unfit(store: TableStore, group: Group) -> list[Refusal]:
    try:
        store.check(group)
        return []
    except RowError as error:
        first, last = int(group.offsets[0]), int(group.offsets[-1])
        if first == last:
            return [_refusal(first, error)]
    middle = int(np.searchsorted(group.offsets, (first + last) // 2 + 1))
    offsets, rows, _ = group
    left, right = Group(offsets[:middle], rows.slice(0, middle)), Group(offsets[middle:], rows.slice(middle))
    return [*_unfit(store, left), *_unfit(store, right)]


def _refusal(offset: int, error: RowError) -> Refusal:
    return Refusal(offset, "insert", error.reason, error.column, error.message)


def _insert(store: TableStore, block: Block, waits: Waits) -> None:
    """Tries again while the server is away. From then on the block is unclear: looking is cheap, and what a server
    did before it went is not for a driver's error to tell."""
    deadline, pause = time.monotonic() + waits.patience_s, 0.1
    while True:
        try:
            store.insert(block, waits.settle_s)
            return
        except (Unavailable, DiskFull) as error:
            store.close()
            block = replace(block, unclear=True)
            if time.monotonic() > deadline:
                raise
            log.warning("offsets %d to %d are tried again: %s", block.start, block.stop, error.message)
        time.sleep(pause)
        pause = min(pause * 2, 2.0)


def _bury(read: ReadPlan, part: Range, records: pa.Table, refusals: list[Refusal]) -> None:
    """One letter per record, with its bytes."""
    offsets = records["offset"].to_numpy()
    letters: dict[int, dict[str, Any]] = {}
    for refusal in refusals:
        place = int(np.searchsorted(offsets, refusal.offset))
        where = (refusal.offset, records["ts_ms"][place].as_py())
        letters[refusal.offset] = letter(
            read,
            part,
            where,
            records["data"][place].as_py(),
            (refusal.reason, refusal.detail),
            stage=refusal.stage,
            column=refusal.column,
        )
    bury(read, [letters[offset] for offset in sorted(letters)], part)
