"""Where an attempt begins, by what the state of the sync and its destination know of earlier ones."""

from __future__ import annotations

import logging
from typing import NoReturn

from gauss.connect.runs import SyncRun, check_run
from gauss.connect.state import StateStore
from gauss.connect.typed import typed
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import FENCED, ConnectorError
from gauss.contracts.connector.stream import StreamContext

log = logging.getLogger("gauss.connect")


class Above(Exception):
    """The destination knows a run of a larger generation."""

    def __init__(self, newest: int) -> None:
        super().__init__(newest)
        self.newest = newest


def safe_cursor(
    mark: Watermark | None, stream: str, generation: int, store: StateStore, run: SyncRun
) -> CursorValue | None:
    """The destination's watermark, stored in the transaction of the data, unless a user has set a cursor since.
    `generation`: of the attempt that begins, which the destination has accepted."""
    found = store.cursor(run.sync, stream)
    if found is not None and store.is_edited(run.sync, stream):
        # Its own generation is below that of the watermark if the state was lost before. With that of this attempt the
        # two tell from here on whether rows were committed behind it.
        check_run(store, run)
        found = found._replace(generation=generation)
        store.move(run.sync, stream, found, run.id)
    if mark is None or (found is not None and found.generation > mark.generation):
        return found.value if found is not None else None
    return mark.cursor


def raise_above(error: ConnectorError, stream: StreamContext, floor: int, store: StateStore, run: SyncRun) -> NoReturn:
    """Raises Above if a destination's `prepare` has failed since it knows a generation above `floor`, though no later
    run than this one is known; else the error, or that of a later run."""
    newest = (error.details or {}).get("newest") if error.code == FENCED else None
    if newest is None or newest <= floor:
        raise error
    typed(lambda: check_run(store, run))
    log.warning(
        "%s: the destination knows a later run than the state of this sync, which was lost or is another machine's:"
        " this run goes on above it",
        stream.stream_name,
    )
    raise Above(newest) from error
