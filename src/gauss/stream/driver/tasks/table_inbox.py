"""Writes the inbox of a table topic into the table, in a task of a standing job."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.task_messages import Claimed, Grant
from gauss.contracts.letter import Letter
from gauss.contracts.table import RowBlock
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.names import is_retry_topic
from gauss.model.paths import DataDir
from gauss.stream.child import assignment
from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.planning.standing_plans import TablePlan, TableWork
from gauss.stream.driver.tasks.reading import FORGET, Range, coalesced, dead_letter, engine, letter, ranges
from gauss.stream.tables import table_topic
from gauss.tables.insert import PATIENCE_S, Waits
from gauss.tables.rows import Refusal, RowMapper
from gauss.tables.writer import write_blocks

KEPT_TABLES = 4

_open: OrderedDict[tuple[object, ...], RowMapper] = OrderedDict()


def open_table(work: TableWork) -> RowMapper:
    """The table of a plan; the process keeps it open."""
    key = (work.data_dir, work.topic, *work.lacking)
    if key not in _open:
        paths = DataDir(Path(work.data_dir))
        given = assignment(paths)
        table = table_topic(given.pipeline, work.topic, given.base_dir, paths)
        table.store.open(table.target, work.lacking)
        _open[key] = RowMapper(table, work.lacking)
        while len(_open) > KEPT_TABLES:
            _open.popitem(last=False)[1].table.store.close()
    return _open[key]


def _forget() -> None:
    """Closes every table."""
    while _open:
        _open.popitem()[1].table.store.close()


FORGET.append(_forget)


def row_inc(topic: str, inc: int) -> int:
    """The value of a row's `_inc`: the incarnation; negative for replayed dead letters, whose offsets are those of the
    retry topic instead of the inbox."""
    return -inc if is_retry_topic(topic) else inc


class Inbox:
    """Implements `RecordSource` for one claim of a table's inbox."""

    def __init__(self, plan: TablePlan, claimed: Claimed) -> None:
        self._work, self._claimed = plan.work, claimed
        self._read = RangeRead(plan.flight, plan.processor, claimed.generation)
        self._mapper = open_table(plan.work)
        self._topics: dict[int, str] = {}
        """The topic of each `inc` of the epoch's blocks."""

    def empty_into_table(self, grant: Grant) -> None:
        """Writes the records of an epoch into the table."""
        parts = ranges(grant.start, grant.end)
        self._topics = {row_inc(part.topic, part.inc): part.topic for part in parts}
        waits = Waits(self._work.settle_s, 0.0 if grant.again else PATIENCE_S)
        write_blocks(self._mapper, self, [self._block(grant, part) for part in parts], waits)

    def _block(self, grant: Grant, part: Range) -> RowBlock:
        before, settled = self._claimed.rewound.get(part.topic), grant.settled.get(part.topic)
        rewound = before is not None and before.inc == part.inc and part.start < before.off
        return RowBlock(
            processor=self._read.processor,
            generation=self._read.generation,
            epoch=grant.epoch,
            inc=row_inc(part.topic, part.inc),
            start=part.start,
            stop=part.stop,
            settled=settled.off if settled is not None and settled.inc == part.inc else 0,
            unclear=rewound or grant.again,
            rewound=rewound,
        )

    def _range(self, block: RowBlock) -> Range:
        return Range(self._topics[block.inc], abs(block.inc), block.start, block.stop)

    def read(self, block: RowBlock) -> pa.Table:
        part, read = self._range(block), self._read
        ticket = Read(part.topic, part.inc, part.start, part.stop, read.processor, read.generation)
        pieces = list(coalesced(engine(read.flight).read(ticket)))
        return pa.Table.from_batches(pieces) if pieces else RECORD_SCHEMA.empty_table()

    def dead_letter(self, block: RowBlock, records: pa.Table, refusals: Sequence[Refusal]) -> None:
        """Stages one dead letter per refused record."""
        part = self._range(block)
        offsets = records["offset"].to_numpy()
        letters: dict[int, Letter] = {}
        for refusal in refusals:
            place = int(np.searchsorted(offsets, refusal.offset))
            where = (refusal.offset, records["ts_ms"][place].as_py())
            letters[refusal.offset] = letter(
                self._read,
                part,
                where,
                records["data"][place].as_py(),
                (refusal.reason, refusal.detail),
                stage=refusal.stage,
                column=refusal.column,
            )
        dead_letter(self._read, [letters[offset] for offset in sorted(letters)], part)
