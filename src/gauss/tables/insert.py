"""Inserts a block of rows, retries while the server is unavailable, and finds the rows that it refuses by bisection."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gauss.clients.errors import RowError
from gauss.contracts.table import RowBlock, RowGroup, TableStore
from gauss.model.errors import DiskFull, Unavailable
from gauss.tables.rows import Refusal

PATIENCE_S = 10.0
"""How long a first attempt waits for an unavailable server before it raises."""

log = logging.getLogger(__name__)


class Waits(NamedTuple):
    """How long an insert may still be in flight after its writer died, and how long to wait for an unavailable
    server."""

    settle_s: float
    patience_s: float = PATIENCE_S


def insert_block(store: TableStore, block: RowBlock, waits: Waits) -> list[Refusal]:
    """Inserts a block and returns the records that do not fit.

    Rows that cannot be encoded are found locally; rows that the server refuses are found by halving the block at fixed
    offsets, so that a replay makes the same blocks.
    """
    if not block.groups:
        return []
    try:
        _insert(store, block, waits)
        return []
    except RowError as error:
        if unfit := [found for group in block.groups for found in unfit_rows(store, group)]:
            return [*unfit, *insert_block(store, block.without([found.offset for found in unfit]), waits)]
        if block.stop - block.start == 1:
            return [_refusal(block.start, error)]
    return [found for half in block.halves() for found in insert_block(store, half, waits)]


def unfit_rows(store: TableStore, group: RowGroup) -> list[Refusal]:
    """The rows of a group that cannot be encoded for the server."""
    try:
        store.check(group)
        return []
    except RowError as error:
        first, last = int(group.offsets[0]), int(group.offsets[-1])
        if first == last:
            return [_refusal(first, error)]
    middle = int(np.searchsorted(group.offsets, (first + last) // 2 + 1))
    offsets, rows, _ = group
    left, right = RowGroup(offsets[:middle], rows.slice(0, middle)), RowGroup(offsets[middle:], rows.slice(middle))
    return [*unfit_rows(store, left), *unfit_rows(store, right)]


def _refusal(offset: int, error: RowError) -> Refusal:
    return Refusal(offset, "insert", error.reason, error.column, error.message)


def _insert(store: TableStore, block: RowBlock, waits: Waits) -> None:
    """Inserts a block, retrying while the server is unavailable. After the first error the block is `unclear`: what
    the server did before the connection broke is unknown, and reading back is cheap."""
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
            log.warning("insert of offsets %d to %d is retried: %s", block.start, block.stop, error.message)
        time.sleep(pause)
        pause = min(pause * 2, 2.0)
