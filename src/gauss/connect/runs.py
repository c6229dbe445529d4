"""Runs of syncs: at most one at a time, each with a generation that fences those before it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from gauss.connect.state import StateStore
from gauss.connect.state_schema import RUN_STREAMS, RUNS
from gauss.model.errors import Fenced, GaussError, Rejected
from gauss.process.identity import alive, pid_space, start_time

log = logging.getLogger("gauss.connect")
BEAT_S = 5.0
LAPSE_S = 30.0
"""A run on another machine, or in another container, that has not been heard of for so long is dead."""
KEPT_RUNS = 200
RUNNING = "running"


@dataclass(frozen=True)
class Me:
    """This process, as other processes and machines see it."""

    host: str
    boot: str
    """What its pid belongs to."""
    pid: int
    process_start: int

    @classmethod
    def here(cls) -> Me:
        return cls(socket.gethostname(), pid_space(), os.getpid(), start_time(os.getpid()) or 0)


class StreamRows(NamedTuple):
    """What a run has written of a stream."""

    stream: str
    status: str
    rows: int
    bytes: int


class SyncRun:
    """A run of a sync that this process holds. A thread tells others that it lives."""

    def __init__(self, store: StateStore, sync: str, generation: int) -> None:
        self.sync, self.generation = sync, generation
        self.on_lost: Callable[[], None] = lambda: None
        """Called once if another run has taken over."""
        self._store = store
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="sync-beat", daemon=True)
        self._beats.start()

    @property
    def id(self) -> str:
        return f"{self.sync}#{self.generation}"

    def end(self, status: str, detail: str = "", streams: Sequence[StreamRows] = ()) -> None:
        """Records its end, and what it has written. Idempotent; a run that was taken over records nothing."""
        if not self._ended.is_set():
            self._ended.set()
            self._beats.join()
            now = _now()
            self._update(streams, seen_ms=now, ended_ms=now, status=status, detail=detail)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            if not self._update(seen_ms=_now()):
                self.on_lost()
                return

    def _update(self, streams: Sequence[StreamRows] = (), **values: Any) -> bool:
        """Returns whether the run is still this one's. A store that does not answer is asked again by the next beat."""
        mine = (RUNS.c.sync == self.sync, RUNS.c.generation == self.generation, RUNS.c.ended_ms.is_(None))
        try:
            with self._store.transaction() as connection:
                is_mine = bool(connection.execute(RUNS.update().where(*mine).values(**values)).rowcount)
                if is_mine and streams:
                    which = {"sync": self.sync, "generation": self.generation}
                    connection.execute(RUN_STREAMS.insert(), [{**which, **each._asdict()} for each in streams])
                return is_mine
        except GaussError as error:
            log.warning("%s: %s", self.id, error.message)
            return True


def start_run(store: StateStore, sync: str, me: Me | None = None) -> SyncRun:
    """Starts a run with the next generation. Raises Rejected while another run lives; a dead one is taken over."""
    me, now = me or Me.here(), _now()
    try:
        with store.transaction() as connection:
            last = connection.execute(
                sa.select(RUNS).where(RUNS.c.sync == sync).order_by(RUNS.c.generation.desc()).limit(1)
            ).first()
            if last is not None and last.ended_ms is None:
                if _lives(last, me, now):
                    raise Rejected(
                        f'sync "{sync}" is running: process {last.pid} on {last.host}, for'
                        f" {(now - last.started_ms) / 1000:.0f} s",
                        hint="wait for its end, or stop that process",
                    )
                taken = {"ended_ms": now, "status": "lost", "detail": "its process ended without a word"}
                open_ = (RUNS.c.sync == sync, RUNS.c.ended_ms.is_(None))
                connection.execute(RUNS.update().where(*open_).values(**taken))
            generation = (last.generation if last is not None else 0) + 1
            row = {"generation": generation, "started_ms": now, "seen_ms": now, "status": RUNNING, "detail": ""}
            connection.execute(RUNS.insert().values(sync=sync, **vars(me), **row))
            for table in (RUNS, RUN_STREAMS):
                old = (table.c.sync == sync, table.c.generation <= generation - KEPT_RUNS)
                connection.execute(table.delete().where(*old))
    except sa.exc.IntegrityError:
        raise Rejected(f'sync "{sync}" was started by another process just now') from None
    return SyncRun(store, sync, generation)


def check_run(store: StateStore, run: SyncRun) -> None:
    """Raises Fenced if a later run has taken over."""
    with store.transaction() as connection:
        newest = connection.execute(sa.select(sa.func.max(RUNS.c.generation)).where(RUNS.c.sync == run.sync)).scalar()
    if newest != run.generation:
        raise Fenced(f'sync "{run.sync}" belongs to a later run (generation {newest})')


def list_runs(store: StateStore, sync: str = "", limit: int = 100) -> list[dict[str, Any]]:
    """The last runs, of one sync or of all, the newest first; `status` is `lost` for those that have died. `streams`:
    what a run that has ended has written of each of its streams."""
    me, now = Me.here(), _now()
    query = sa.select(RUNS).order_by(RUNS.c.started_ms.desc(), RUNS.c.generation.desc()).limit(limit)
    with store.transaction() as connection:
        rows = connection.execute(query.where(RUNS.c.sync == sync) if sync else query).all()
        which = sa.tuple_(RUN_STREAMS.c.sync, RUN_STREAMS.c.generation).in_(
            [(row.sync, row.generation) for row in rows]
        )
        written = connection.execute(sa.select(RUN_STREAMS).where(which).order_by(RUN_STREAMS.c.stream)).all()
    streams: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in written:
        shown = StreamRows(each.stream, each.status, each.rows, each.bytes)._asdict()
        streams.setdefault((each.sync, each.generation), []).append(shown)
    found = []
    for row in rows:
        lost = row.ended_ms is None and not _lives(row, me, now)
        status = "lost" if lost else row.status
        found.append({**row._mapping, "status": status, "streams": streams.get((row.sync, row.generation), [])})
    return found


def _lives(row: Any, me: Me, now: int) -> bool:
    if (row.host, row.boot) == (me.host, me.boot):
        return alive(int(row.pid), int(row.process_start))
    return bool(now - row.seen_ms < LAPSE_S * 1000)


def _now() -> int:
    return time.time_ns() // 1_000_000
