"""Writes ranges of records into a table, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from gauss.contracts.table import RowBlock
from gauss.tables.insert import Waits, insert_block
from gauss.tables.rows import MappedRows, Refusal, RowMapper


class RecordSource(Protocol):
    """Where the records of blocks come from, and where those that are no rows go. `read` is called from a second
    thread."""

    def read(self, block: RowBlock) -> pa.Table:
        """The records `(offset, ts_ms, data)` of a block."""
        ...

    def dead_letter(self, block: RowBlock, records: pa.Table, refusals: Sequence[Refusal]) -> None:
        """Makes dead letters of the records that were refused."""
        ...


def write_blocks(mapper: RowMapper, source: RecordSource, blocks: Sequence[RowBlock], waits: Waits) -> None:
    """Reads, maps and inserts blocks, which are given without rows. While the server inserts one, the next is read and
    mapped."""
    for block, rows in zip(blocks, _read_ahead(mapper, source, blocks), strict=True):
        _write(mapper, source, block, rows, waits)


def _write(mapper: RowMapper, source: RecordSource, block: RowBlock, rows: MappedRows | None, waits: Waits) -> None:
    """Inserts a block; in halves if its rows are too large together, at fixed offsets, so that a replay makes the same
    blocks."""
    if rows is None:
        for half in block.halves():
            _write(mapper, source, half, _rows(mapper, source, half), waits)
        return
    refused = insert_block(mapper.table.store, replace(block, groups=rows.groups), waits)
    if refusals := [*rows.refusals, *refused]:
        source.dead_letter(block, rows.records, refusals)


def _rows(mapper: RowMapper, source: RecordSource, block: RowBlock) -> MappedRows | None:
    return mapper.rows(source.read(block))


def _read_ahead(mapper: RowMapper, source: RecordSource, blocks: Sequence[RowBlock]) -> Iterator[MappedRows | None]:
    if len(blocks) == 1:
        yield _rows(mapper, source, blocks[0])
        return
    with ThreadPoolExecutor(1, "ahead") as pool:
        coming: deque[Future[MappedRows | None]] = deque()
        for block in blocks:
            coming.append(pool.submit(_rows, mapper, source, block))
            if len(coming) > 1:
                yield coming.popleft().result()
        if coming:
            yield coming.popleft().result()
