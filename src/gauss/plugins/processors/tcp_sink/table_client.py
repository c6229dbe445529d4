"""A client of a sink that reads a table: one frame per row; whole snapshots, or one snapshot and then changes."""

from __future__ import annotations

import logging
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Mode, Placed, Program, ReaderCursor, Step
from gauss.model.errors import GaussError
from gauss.plugins.processors.tcp_sink.client import FIRST_LOOK_SECONDS, PeerGone, SinkClient
from gauss.plugins.processors.tcp_sink.wire import TICK_SECONDS

log = logging.getLogger("gauss.tcp_sink")

STEP = Step(limit=65_536, max_bytes=1 << 20)
SEND_AGAIN_SECONDS = 0.05


class TableClient(SinkClient):
    """Sends a table to one client. It blocks no writer: a slow client misses intermediate versions."""

    _snapshot: int | None = None
    """Version of the snapshot whose rows are being sent."""
    _snapshot_rows = 0

    def follow_table(self) -> None:
        """Sends the table by the read mode of the sink until the peer disconnects or the sink stops."""
        if self._context.read == "snapshot":
            self._send_snapshot()
            if self._config.ends_by_itself():
                self._wire.finish()
            else:
                self._stay()
        elif self._context.subscribe == "changes":
            self._follow_changes()
        else:
            self._follow_snapshots()

    def _stay(self) -> None:
        """Waits until the peer disconnects or the sink stops."""
        while not self._stop.now.wait(self._patience(False)) and self._stop.at is None:
            self._look_for_peer()
        self._wire.finish()

    def _follow_snapshots(self) -> None:
        seen = self._send_snapshot()
        while not self._stop.now.is_set():
            if self._topic.wait(seen, self._patience(False)) > seen and self._peer_has_all():
                seen = self._send_snapshot()
            elif self._stop.at is not None and seen >= self._stop.at:
                self._wire.finish()
                return
            else:
                self._look_for_peer()

    def _peer_has_all(self) -> bool:
        """Whether the last snapshot has arrived; a next one queued behind it would be outdated when it is sent."""
        look = FIRST_LOOK_SECONDS
        while self._wire.unacknowledged():
            if self._stop.now.wait(look):
                return False
            look = min(look * 2, SEND_AGAIN_SECONDS)
            self._look_for_peer()
        return True

    def _send_snapshot(self) -> int:
        """Sends the current table; returns its version."""
        cursor = self._topic.open(Program())
        try:
            self._begin_snapshot(cursor)
            while not self._stop.now.is_set():
                code = cursor.next(STEP)
                if code is Code.INVALID:
                    self._end_snapshot()
                    break
                if code is not Code.OK:  # what was sent is not the whole table, and gets no end
                    raise cursor.fault or GaussError(f"the table refused to be read: {code.name}")
                self._send_rows(cursor)
            return cursor.pinned_version
        finally:
            cursor.close()

    def _follow_changes(self) -> None:
        cursor = self._topic.open(Program(mode=Mode.LIVE))
        try:
            self._begin_snapshot(cursor)
            while not self._stop.now.is_set():
                code = cursor.next(STEP)
                if code is Code.INVALID:
                    self._end_snapshot()
                if code is Code.OK:
                    self._send_rows(cursor)
                elif code is Code.REJECTED:
                    cursor = self._begin_anew(cursor)
                elif code is not Code.INVALID:
                    raise GaussError(f"the table refused to be read: {code.name}")
                elif self._stop.at is not None and cursor.position >= self._stop.at:
                    self._wire.finish()
                    return
                elif self._topic.wait(cursor.position, self._patience(False)) <= cursor.position:
                    self._look_for_peer()
        finally:
            cursor.close()

    def _begin_anew(self, cursor: ReaderCursor) -> ReaderCursor:
        position = cursor.position
        cursor.close()
        cursor = self._topic.open(Program(mode=Mode.LIVE))
        missed = cursor.pinned_version - position
        log.warning(
            "%s: client %s was %d changes behind, more than the table keeps: it gets the whole table again",
            self._context.name,
            self._peer,
            missed,
        )
        self.shown["missed"] = int(str(self.shown.get("missed", 0))) + missed
        self._begin_snapshot(cursor)
        return cursor

    def _begin_snapshot(self, cursor: ReaderCursor) -> None:
        self._snapshot, self._snapshot_rows = cursor.pinned_version, 0
        self._send_mark(self._encoder.begin(cursor.pinned_version))

    def _end_snapshot(self) -> None:
        """Sends the end of the snapshot. Idempotent: a live cursor continues with changes."""
        if self._snapshot is not None:
            self._send_mark(self._encoder.end(self._snapshot, self._snapshot_rows))
            self._snapshot = None

    def _send_mark(self, payload: bytes) -> None:
        if payload:
            self._wire.send([payload], self._stalled)
            self._count(0, len(payload))
            self.shown["bytes"] = int(str(self.shown["bytes"])) + len(payload)
            self.shown["blocked_since_ms"] = None

    def _send_rows(self, cursor: ReaderCursor) -> None:
        batch = cursor.read()[1]
        assert isinstance(batch, pa.RecordBatch)
        data = batch.column("data")
        deleted = batch.column("deleted")
        if deleted.true_count:  # an evicted key has no record that could be sent
            batch = batch.filter(pc.invert(pc.and_(deleted, pc.equal(pc.binary_length(data), 0))))
        if self._snapshot is not None:
            # A live cursor may give the last rows of the snapshot and the first changes, which are newer, in one batch.
            newer = np.flatnonzero(batch.column("version").to_numpy() > self._snapshot)
            border = int(newer[0]) if len(newer) else batch.num_rows
            self._snapshot_rows += border
            self._send_part(batch.slice(0, border))
            batch = batch.slice(border)
            if batch.num_rows:
                self._end_snapshot()
        self._send_part(batch)
        self._position = cursor.position
        self.shown["position"] = cursor.position

    def _send_part(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            data, times = batch.column("data"), batch.column("ts_ms").to_numpy()
            self._send([Placed(int(batch.column("version")[0].as_py()), Chunk(data, len(data), times))], False)

    def _look_for_peer(self) -> None:
        if self._wire.peer_has_gone():
            raise PeerGone("the client closed the connection")

    def _stalled(self) -> None:
        if self._stop.now.is_set():
            raise PeerGone("the sink stopped while the client was not reading")
        if self.shown["blocked_since_ms"] is None:
            self.shown["blocked_since_ms"] = int((time.time() - TICK_SECONDS) * 1000)
