"""Reads COPY … TO STDOUT (FORMAT binary) by blocks of rows."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import pq
from psycopg.errors import error_from_result

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.errors import sorted_errors
from gauss.model.errors import StorageError
from gauss.plugins.processors.pg_source.libpq_loop import (
    FULL,
    PENDING_LENGTH,
    ROWS,
    USED,
    CopyBuffer,
    compiled_loop,
)

BLOCK_ROWS, BLOCK_BYTES = 4_096, 1 << 20
WORTH_COMPILING = 20_000
"""Rows of a COPY after which the compiled loop is loaded, which takes a second."""
WAIT_S = 0.1
SIGNATURE = b"PGCOPY\n\xff\r\n\0"
TRAILER = b"\xff\xff"


class CopyRows(NamedTuple):
    """Rows of COPY; row i is body[offsets[i] : offsets[i + 1]]."""

    body: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, number: int) -> bytes:
        number %= len(self)
        return self.body[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def part(self, start: int, stop: int) -> CopyRows:
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return CopyRows(self.body[first:last], self.offsets[start : stop + 1] - first)

    def followed_by(self, other: CopyRows) -> CopyRows:
        if not len(self):
            return other
        return CopyRows(
            np.concatenate([self.body, other.body]),
            np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]]),
        )

    def array(self) -> pa.BinaryArray:
        buffers = [None, pa.py_buffer(self.offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(self.body))]
        return pa.BinaryArray.from_buffers(pa.binary(), len(self), buffers)


NO_ROWS = CopyRows(np.zeros(0, np.uint8), np.zeros(1, np.int64))


def copy_rows(connection: Connection, select_rows: str, stop: threading.Event) -> Iterator[CopyRows]:
    """The rows of a SELECT in blocks, until `stop` is set. Closes the connection unless the COPY is read to its end."""
    try:
        with sorted_errors():
            yield from _copied(connection, select_rows, stop)
    finally:
        if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            connection.close()


def _copied(connection: Connection, select_rows: str, stop: threading.Event) -> Iterator[CopyRows]:
    pgconn = connection.pgconn
    pgconn.send_query(f"COPY ({select_rows}) TO STDOUT (FORMAT binary)".encode())
    while pgconn.is_busy():
        if stop.is_set():
            return
        _wait(pgconn)
    _must_be(pgconn.get_result(), pq.ExecStatus.COPY_OUT)
    buffer = _RowBuffer(pgconn)
    first, code = True, 0
    while code >= 0:
        if stop.is_set():
            return
        code = buffer.fill()
        idle = code == 0 and not _wait(pgconn)
        if buffer.full or (idle and buffer.rows) or code < 0:
            rows = buffer.take()
            if first and len(rows):
                rows, first = _without_header(rows), False
            if code < 0 and len(rows) and rows.row(-1) == TRAILER:
                rows = rows.part(0, len(rows) - 1)
            if len(rows):
                yield rows
    if code < -1:
        raise psycopg.OperationalError(pgconn.get_error_message() or "Postgres ended the COPY without a message")
    while (result := pgconn.get_result()) is not None:
        _must_be(result, pq.ExecStatus.COMMAND_OK)


def _wait(pgconn: Any) -> bool:
    """Waits for input and reads it; False if none came for WAIT_S."""
    ready = bool(select.select([pgconn.socket], [], [], WAIT_S)[0])
    if ready:
        pgconn.consume_input()
    return ready


def _must_be(result: Any, status: pq.ExecStatus) -> None:
    if result is None or result.status == status:
        return
    raise error_from_result(result)


def _without_header(rows: CopyRows) -> CopyRows:
    """The rows without COPY's header, with which the first message begins."""
    head = rows.row(0)
    if not head.startswith(SIGNATURE):
        raise StorageError(
            "Postgres sent a COPY without its signature",
            hint="check for a proxy between Gauss and Postgres that changes the data",
        )
    length = 19 + int.from_bytes(head[15:19], "big")
    offsets = rows.offsets.copy()
    offsets[0] += length
    return CopyRows(rows.body, offsets).part(0 if offsets[0] < offsets[1] else 1, len(rows))


class _RowBuffer:
    """Copies rows from libpq into one buffer."""

    def __init__(self, pgconn: Any) -> None:
        self._pgconn = pgconn
        self._buffer = CopyBuffer(
            np.empty(2 * BLOCK_BYTES, np.uint8), np.zeros(BLOCK_ROWS, np.int64), np.zeros(4, np.int64)
        )
        self._seen = 0

    @property
    def rows(self) -> int:
        return int(self._buffer.state[ROWS])

    @property
    def full(self) -> bool:
        state = self._buffer.state
        return bool(self.rows == BLOCK_ROWS or state[USED] >= BLOCK_BYTES or state[PENDING_LENGTH])

    def fill(self) -> int:
        """FULL, 0 if libpq has no whole row now, or below 0 at the end of the COPY (-1) or after an error."""
        loop = compiled_loop() if self._seen >= WORTH_COMPILING else None
        if loop is None:
            return self._fill_plainly()
        pending = int(self._buffer.state[PENDING_LENGTH])
        if pending > len(self._buffer.body):
            self._buffer = self._buffer._replace(body=np.empty(pending, np.uint8))
        return int(loop(self._pgconn.pgconn_ptr, self._buffer, BLOCK_BYTES))

    def _fill_plainly(self) -> int:
        while not self.full:
            length, data = self._pgconn.get_copy_data(1)
            if length <= 0:
                return int(length)
            body, ends, state = self._buffer
            used = int(state[USED])
            if used + length > len(body):
                body = np.concatenate([body[:used], np.empty(length, np.uint8)])
                self._buffer = self._buffer._replace(body=body)
            body[used : used + length] = np.frombuffer(data, np.uint8)
            state[USED] += length
            ends[state[ROWS]] = used + length
            state[ROWS] += 1
        return FULL

    def take(self) -> CopyRows:
        """Returns the rows and empties the buffer."""
        body, ends, state = self._buffer
        rows = self.rows
        found = CopyRows(body[: state[USED]].copy(), np.concatenate([np.zeros(1, np.int64), ends[:rows]]))
        state[USED] = state[ROWS] = 0
        self._seen += rows
        return found
