"""Sets the cursor of a stream by hand."""

from __future__ import annotations

import time

from gauss.config.syncs import SyncDef
from gauss.connect.runs import start_run
from gauss.connect.state import EDITED, StateStore, StreamCursor
from gauss.connect.stream_job import ATTEMPTS
from gauss.contracts.connector.cursor import CursorValue
from gauss.model.errors import NotFound


def set_cursor(store: StateStore, sync: SyncDef, stream: str, value: CursorValue | None) -> StreamCursor:
    """Stores a cursor as a run of its own, so that it counts more than what earlier runs have committed."""
    streams = [] if sync.streams == "*" else [each.name for each in sync.streams if each.mode != "full_refresh"]
    if stream not in streams:
        raise NotFound(
            f'sync "{sync.name}" has no stream "{stream}" with a cursor',
            hint=f"with one: {', '.join(streams) or 'none'}",
        )
    run = start_run(store, sync.name)
    known = store.cursor(sync.name, stream)
    # A run whose state was lost has gone on above the generation that the destination knew. An edit takes the place of
    # the one before it: runs begin above their own generations only.
    later = 0 if known is None else known.generation + (not store.is_edited(sync.name, stream))
    generation = max(run.generation * ATTEMPTS, later)
    cursor = StreamCursor(generation, value, 0, time.time_ns() // 1_000_000)
    store.move(sync.name, stream, cursor, EDITED)
    run.end(EDITED, f"cursor of {stream}")
    return cursor
