"""COPY … TO STDOUT (FORMAT binary), by blocks of rows: libpq's rows are gathered in machine code, not in Python."""

from __future__ import annotations

import ctypes
import functools
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import pq
from psycopg.errors import error_from_result

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.errors import sorted_errors
from gauss.model.errors import StorageError

BLOCK_ROWS, BLOCK_BYTES = 4_096, 1 << 20
WORTH_COMPILING = 20_000
"""Rows after which numba is loaded: below that, one call of Python per row is cheaper."""
WAIT_S = 0.1
SIGNATURE = b"PGCOPY\n\xff\r\n\0"
TRAILER = b"\xff\xff"


class Rows(NamedTuple):
    """Rows of COPY one behind the other; row i is body[offsets[i]:offsets[i + 1]]."""

    body: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, number: int) -> bytes:
        number %= len(self)
        return self.body[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def part(self, start: int, stop: int) -> Rows:
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return Rows(self.body[first:last], self.offsets[start : stop + 1] - first)

    def followed_by(self, other: Rows) -> Rows:
        if not len(self):
            return other
        return Rows(
            np.concatenate([self.body, other.body]),
            np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]]),
        )

    def array(self) -> pa.BinaryArray:
        buffers = [None, pa.py_buffer(self.offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(self.body))]
        return pa.BinaryArray.from_buffers(pa.binary(), len(self), buffers)


NO_ROWS = Rows(np.zeros(0, np.uint8), np.zeros(1, np.int64))


def copy_rows(connection: Connection, select_rows: str, stop: threading.Event) -> Iterator[Rows]:
    """The rows of a SELECT, block by block, up to the last or until `stop` is set; a COPY that did not come to its end
    closes the connection."""
    try:
        with sorted_errors():
            yield from _copied(connection, select_rows, stop)
    finally:
        if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            connection.close()


def _copied(connection: Connection, select_rows: str, stop: threading.Event) -> Iterator[Rows]:
    pgconn = connection.pgconn
    pgconn.send_query(f"COPY ({select_rows}) TO STDOUT (FORMAT binary)".encode())
    while pgconn.is_busy():
        if stop.is_set():
            return
        _wait(pgconn)
    _must_be(pgconn.get_result(), pq.ExecStatus.COPY_OUT)
    gathering = _Gathering(pgconn)
    first, code = True, 0
    while code >= 0:
        if stop.is_set():
            return
        code = gathering.fill()
        idle = code == 0 and not _wait(pgconn)
        if gathering.full or (idle and gathering.rows) or code < 0:
            rows = gathering.take()
            if first and len(rows):
                rows, first = _without_header(rows), False
            if code < 0 and len(rows) and rows.row(-1) == TRAILER:
                rows = rows.part(0, len(rows) - 1)
            if len(rows):
                yield rows
    if code < -1:
        raise psycopg.OperationalError(pgconn.get_error_message() or "the COPY broke off")
    while (result := pgconn.get_result()) is not None:
        _must_be(result, pq.ExecStatus.COMMAND_OK)


def _wait(pgconn: Any) -> bool:
    """Takes in what has come; False when nothing came for a while."""
    ready = bool(select.select([pgconn.socket], [], [], WAIT_S)[0])
    if ready:
        pgconn.consume_input()
    return ready


def _must_be(result: Any, status: pq.ExecStatus) -> None:
    if result is None or result.status == status:
        return
    raise error_from_result(result)


def _without_header(rows: Rows) -> Rows:
    """The first message begins with COPY's header; if it holds nothing else it is no row."""
    head = rows.row(0)
    if not head.startswith(SIGNATURE):
        raise StorageError("Postgres sent a COPY without its signature", hint="is there a proxy that changes it?")
    length = 19 + int.from_bytes(head[15:19], "big")
    offsets = rows.offsets.copy()
    offsets[0] += length
    return Rows(rows.body, offsets).part(0 if offsets[0] < offsets[1] else 1, len(rows))


class _Gathering:
    """Rows as libpq has them, copied one behind the other."""

    def __init__(self, pgconn: Any) -> None:
        self._pgconn = pgconn
        self._body = np.empty(2 * BLOCK_BYTES, np.uint8)
        self._ends = np.zeros(BLOCK_ROWS, np.int64)
        self._state = np.zeros(4, np.int64)  # bytes, rows, and a row that did not fit: its address and length
        self._seen = 0

    @property
    def rows(self) -> int:
        return int(self._state[1])

    @property
    def full(self) -> bool:
        return bool(self.rows == BLOCK_ROWS or self._state[0] >= BLOCK_BYTES or self._state[3])

    def fill(self) -> int:
        """1: the block is full, 0: libpq has no whole row now, below: the COPY is over (-1) or broken."""
        compiled = _compiled() if self._seen >= WORTH_COMPILING else None
        if compiled is None:
            return self._fill_plainly()
        if self._state[3] > len(self._body):
            self._body = np.empty(int(self._state[3]), np.uint8)
        return int(compiled(self._pgconn.pgconn_ptr, self._body, BLOCK_BYTES, self._ends, self._state))

    def _fill_plainly(self) -> int:
        while not self.full:
            length, data = self._pgconn.get_copy_data(1)
            if length <= 0:
                return int(length)
            used = int(self._state[0])
            if used + length > len(self._body):
                self._body = np.concatenate([self._body[:used], np.empty(length, np.uint8)])
            self._body[used : used + length] = np.frombuffer(data, np.uint8)
            self._state[:2] += (length, 1)
            self._ends[self.rows - 1] = used + length
        return 1

    def take(self) -> Rows:
        """What was gathered; gathering begins anew."""
        used, rows = int(self._state[0]), self.rows
        offsets = np.concatenate([np.zeros(1, np.int64), self._ends[:rows]])
        self._state[:2] = 0
        self._seen += rows
        return Rows(self._body[:used].copy(), offsets)


@functools.cache
def _compiled() -> Callable[..., int] | None:
    """The loop over PQgetCopyData as machine code, on the very libpq that psycopg has loaded; None: it is not found."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next((line.split(maxsplit=5)[5] for line in maps if "/libpq" in line), None)
    if path is None:
        return None
    import llvmlite.binding  # type: ignore[import-untyped]
    import numba
    from numba import types

    library, c = ctypes.CDLL(path), ctypes.CDLL(None)
    for home, name in ((library, "PQgetCopyData"), (library, "PQfreemem"), (c, "memcpy")):
        # Under a name of our own: a cached loop finds it again in every process.
        llvmlite.binding.add_symbol(f"gauss_{name}", ctypes.cast(getattr(home, name), ctypes.c_void_p).value)
    get_row = types.ExternalFunction("gauss_PQgetCopyData", types.int32(types.intp, types.intp, types.int32))
    free = types.ExternalFunction("gauss_PQfreemem", types.void(types.intp))
    copy = types.ExternalFunction("gauss_memcpy", types.intp(types.intp, types.intp, types.intp))

    def loop(pgconn: Any, body: Any, enough: Any, ends: Any, state: Any) -> int:
        cell = np.zeros(1, np.int64)
        while state[1] < len(ends) and state[0] < enough:
            address, length = state[2], state[3]
            if length == 0:
                length = get_row(pgconn, cell.ctypes.data, 1)
                if length <= 0:
                    return int(length)
                address = cell[0]
            if state[0] + length > len(body):
                state[2], state[3] = address, length
                return 1
            copy(body.ctypes.data + state[0], address, length)
            free(address)
            state[2] = state[3] = 0
            state[0] += length
            ends[state[1]] = state[0]
            state[1] += 1
        return 1

    made: Callable[..., int] = numba.njit(cache=True, nogil=True)(loop)
    return made
