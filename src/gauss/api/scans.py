"""Scans over HTTP and WebSocket: programs, snapshots of tables, and subscriptions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from fastapi import APIRouter, Query, Response, WebSocket
from fastapi.responses import StreamingResponse
from pyarrow import flight
from starlette.concurrency import run_in_threadpool

from gauss.api.reading import TopicReading
from gauss.api.records import MOST, Decode, change_lines, entries, object_lines
from gauss.api.sockets import Lines, first_message, serve_socket
from gauss.api.stored import is_stored, keyed_entries, listed
from gauss.clients.engine.client import as_gauss_error
from gauss.clients.engine.cursors import STEP, RemoteCursor, refused
from gauss.contracts.cursor import Code, Mode, Program, Seq, Step
from gauss.http.tail import DeliveryWatch, follow, in_pieces
from gauss.model.errors import Collected, ConfigError, GaussError
from gauss.model.units import duration_ms
from gauss.scan.program.blob import encode_program
from gauss.stream.control.run import Running
from gauss.stream.control.tails import ControlClient, RunningScan

NDJSON = "application/x-ndjson"
POLL_ROWS = 1000
MODES = ("snapshot", "changes")
MOST_WAIT_MS = 60_000
LOOK_SECONDS = 0.05
MOST_POLL_BYTES = 64 << 20

Text = Annotated[
    str,
    Query(
        alias="program", description="the program, such as `select(.bid > 100) | {symbol, bid}`; default: all records"
    ),
]
Format = Annotated[str | None, Query(description="the format, if neither the program nor the topic names one")]
Live = Annotated[bool, Query(description="continue with new records")]
Snapshot = Annotated[
    bool, Query(description="of a Kafka topic with a key: the newest record of each key, as rows of a table")
]
Limit = Annotated[int | None, Query(ge=1, le=MOST, description="maximum rows")]
Cost = Annotated[bool, Query(description="end with a line that has what the scan cost: fuel, bytes read, seconds")]
Wait = Annotated[str | None, Query(description="long poll: return the next rows, or none after this time, e.g. 10s")]


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["scans"])
    reading = TopicReading(running)

    @router.get("/scans", summary="Running scans with their progress")
    def scans() -> dict[str, Any]:
        return running.command("scans")

    @router.get("/topics/{name}/scan", summary="Run a scan program; rows as NDJSON")
    async def scan(
        name: str,
        *,
        text: Text = "",
        live: Live = False,
        snapshot: Snapshot = False,
        limit: Limit = None,
        wait: Wait = None,
        format: Format = None,
        cost: Cost = False,
    ) -> Response:
        milliseconds = None if wait is None else _milliseconds(wait)
        program = reading.program(text, live=live or wait is not None, format_name=format)
        if milliseconds is not None and not snapshot and await run_in_threadpool(reading.is_table, name):
            return await _poll_table(running, name, program, milliseconds, limit)
        most = POLL_ROWS if limit is None and milliseconds is not None else limit
        full = wait is not None
        tail = await run_in_threadpool(running.client().tail, name, program, limit=most, full=full, rows=snapshot)
        if milliseconds is not None:
            return await _poll(tail, milliseconds)
        taken = DeliveryWatch()
        texts = follow(WithCost(tail, running), bytes, taken=taken) if cost else follow(tail, object_lines, taken=taken)
        lines = in_pieces(with_error_line(texts), taken)
        return StreamingResponse(lines, media_type=NDJSON, headers=_headers(tail.scanning.cursor))

    @router.get("/topics/{name}/scan/explain", summary="Explain a scan without running it")
    def explain(
        name: str, *, text: Text = "", live: Live = False, snapshot: Snapshot = False, format: Format = None
    ) -> dict[str, Any]:
        blob = encode_program(reading.program(text, live=live, format_name=format))
        return running.command("scan.explain", topic=name, program=base64.b64encode(blob).decode(), rows=snapshot)

    @router.get(
        "/topics/{name}/snapshot",
        summary="A table, or the newest records of a Kafka topic by key, as one object, key → row; a table without a"
        " key as an array",
    )
    async def snapshot(name: str, format: Format = None) -> Response:
        await run_in_threadpool(reading.table, name)
        if is_stored(running.pipeline, name):
            return await _stored_snapshot(running, name)
        decode = reading.rows_of(name, format)
        tail = await run_in_threadpool(running.client().tail, name, Program(), rows=True)
        return _as_object(tail, lambda batch: entries(batch, decode))

    @router.websocket("/topics/{name}/subscribe")
    async def subscribe(socket: WebSocket, name: str) -> None:
        """A table after every change (`?mode=snapshot`), or its rows and then every change (`?mode=changes`)"""
        given = socket.query_params
        await serve_socket(socket, lambda: _subscribed(running, reading, {**given, "subscribe": name}))

    @router.websocket("/subscribe")
    async def subscribe_by_message(socket: WebSocket) -> None:
        """The same; the first message of the client names topic and mode: `{"subscribe": TOPIC, "mode": "changes"}`"""

        async def begin() -> Lines:
            try:
                asked = msgspec.json.decode(await first_message(socket), type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise ConfigError(
                    f"invalid first message: {error}",
                    hint='send {"subscribe": TOPIC, "mode": "changes"}',
                ) from None
            return await _subscribed(running, reading, asked)

        await serve_socket(socket, begin)

    return router


class WithCost:
    """The rows of a scan as NDJSON, and a last line with what the scan cost."""

    def __init__(self, tail: RunningScan, running: Running) -> None:
        self._tail = tail
        self._running = running
        self.keep, self.cancel = tail.keep, tail.cancel

    def __iter__(self) -> Iterator[bytes]:
        began = time.perf_counter()
        for batch in self._tail:
            yield object_lines(batch)
        seconds = time.perf_counter() - began
        number = self._tail.scanning.cursor.opened.scan  # its cursor is open until the answer ends
        used: dict[str, Any] = next(
            (row for row in self._running.command("scans")["scans"] if row["scan"] == number), {}
        )
        cost = {"fuel": used.get("fuel"), "read_bytes": used.get("read_bytes"), "seconds": round(seconds, 4)}
        yield msgspec.json.encode({"cost": cost}) + b"\n"


async def _stored_snapshot(running: Running, name: str) -> Response:
    """An external table: as an object by key, else as a list of rows."""
    described = await run_in_threadpool(lambda: running.command("table", topic=name))
    key = tuple(described["key"])
    tail = await run_in_threadpool(running.client().tail, name, Program(), full=True)
    if key:
        return _as_object(tail, lambda batch: keyed_entries(batch, key))
    return _as_object(tail, listed, b"[", b"]")


def _as_object(tail: RunningScan, encode: Callable[[Any], bytes], begin: bytes = b"{", end: bytes = b"}") -> Response:
    """A table as one JSON value."""
    taken = DeliveryWatch()
    parts = in_pieces(_object(follow(tail, encode, taken=taken), begin, end), taken)
    return StreamingResponse(parts, media_type="application/json", headers=_headers(tail.scanning.cursor))


async def _subscribed(running: Running, reading: TopicReading, asked: dict[str, Any]) -> Lines:
    """The messages of a subscription, as lines."""
    topic, mode, format_name = asked.get("subscribe"), asked.get("mode", "snapshot"), asked.get("format")
    shown = {key: value for key, value in asked.items() if key != "token"}  # the topic may be part of the URL
    if not isinstance(topic, str) or mode not in MODES or not isinstance(format_name, str | None):
        raise ConfigError(
            f"expected a topic and a mode, found {shown}", hint=f'"subscribe": TOPIC, "mode": {" or ".join(MODES)}'
        )
    if mode == "changes":
        await run_in_threadpool(reading.known, topic)
        decode = reading.rows_of(topic, format_name)
        tail = await run_in_threadpool(running.client().tail, topic, Program(mode=Mode.LIVE), name="subscription")
        return follow(tail, lambda batch: change_lines(batch, decode))
    await run_in_threadpool(reading.table, topic, "subscribe")
    # No read-ahead: a slow client gets the newest version when it is ready.
    return follow(Snapshots(running.client(), topic, reading.rows_of(topic, format_name)), bytes, ahead=0)


class Snapshots:
    """The table as one JSON object, now and after changes; changes in between are conflated."""

    def __init__(self, client: ControlClient, topic: str, decode: Decode | None) -> None:
        self._client = client
        self._topic = topic
        self._decode = decode
        self._cursor: RemoteCursor | None = None
        self._cancelled = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            while not self._cancelled:
                with self._opened(Program()) as cursor:
                    whole, seen = self._whole(cursor), cursor.pinned_version
                yield whole
                self._wait(seen)
        except (flight.FlightError, pa.ArrowException) as error:
            if not self._cancelled:
                raise as_gauss_error(error) from error

    def _opened(self, program: Program) -> RemoteCursor:
        self._cursor = self._client.scan_cursor(self._topic, program, name="subscription")
        return self._cursor

    def _whole(self, cursor: RemoteCursor) -> bytes:
        parts: list[bytes] = []
        size = 0
        while (code := cursor.next(STEP, again=True)) is Code.OK:
            parts.append(entries(cursor.read()[1], self._decode, b", "))
            size += len(parts[-1])
            if size > MOST_POLL_BYTES:
                raise ConfigError(
                    f"the table exceeds the {MOST_POLL_BYTES:,} bytes of a message",
                    hint="subscribe with mode=changes, or read its snapshot, which is streamed",
                )
        if code is not Code.INVALID:
            raise refused(code)
        return b"{" + b", ".join(parts) + b"}"

    def _wait(self, version: int) -> None:
        """Waits until the table has changed. The cursor retains no version of the table."""
        try:
            with self._opened(Program(Seq(version), Mode.LIVE)) as cursor:
                while not self._cancelled and not cursor.wait():
                    pass
        except Collected:
            pass  # the changes are no longer retained

    def keep(self) -> None:
        """Releases the cursor while the reader is busy."""

    def cancel(self) -> None:
        self._cancelled = True
        if self._cursor is not None:
            self._cursor.cancel()


async def _poll(tail: RunningScan, milliseconds: int) -> Response:
    """Long poll: the next rows, or none after the timeout. A header has the next position."""
    body = await _first(follow(tail, object_lines, ahead=0), milliseconds)
    return _polled(body, tail.scanning.cursor, tail.scanning.idle_at)


async def _poll_table(running: Running, name: str, program: Program, milliseconds: int, limit: int | None) -> Response:
    """The same of a table: its rows come all at once, for they have no order in which another poll could go on, however
    long they take. The time is for the wait for changes."""
    whole = not (isinstance(program.view, Seq) and program.view.start is not None)
    if limit is not None and whole:
        raise ConfigError("the first poll of a table returns all its rows", hint="remove limit, or use seq(from: …)")
    open_ = functools.partial(running.client().scan_cursor, name, program, name="http", returns=True)
    rows = TableRows(await run_in_threadpool(open_), limit, whole=whole)
    body = await _first(follow(rows, bytes, ahead=0), milliseconds, lambda: rows.idle_at is not None)
    return _polled(body, rows.cursor, rows.idle_at)


async def _first(
    batches: AsyncGenerator[bytes, None], milliseconds: int, may_end: Callable[[], bool] = lambda: True
) -> bytes:
    """The first batch, or none after the timeout if `may_end`."""
    coming = asyncio.create_task(_next(batches))
    try:
        await asyncio.wait({coming}, timeout=milliseconds / 1000)
        while not coming.done() and not may_end():
            await asyncio.wait({coming}, timeout=LOOK_SECONDS)
        return coming.result() if coming.done() else b""
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await batches.aclose()


async def _next(batches: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(batches, b"")


def _polled(body: bytes, cursor: RemoteCursor, idle_at: int | None) -> Response:
    # Rows that arrive at the timeout are not returned; the next poll starts before them.
    position = cursor.position if body or idle_at is None else idle_at
    return Response(body, media_type=NDJSON, headers={**_headers(cursor), "Gauss-Position": str(position)})


class TableRows:
    """All that a live cursor of a table has now; nothing before there is something."""

    def __init__(self, cursor: RemoteCursor, limit: int | None, *, whole: bool) -> None:
        """`whole`: its scan begins with the table's rows."""
        self.cursor = cursor
        self.idle_at = None if whole else cursor.position
        """Up to there is nothing to give. None: the table's rows have not been read to their end, and a poll from any
        version would leave them out."""
        self._left = limit
        self._cancelled = False

    def __iter__(self) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        try:
            while self._left != 0 and not self._cancelled:
                step = STEP if self._left is None else Step(min(self._left, STEP.limit), STEP.max_bytes)
                code = self.cursor.next(step)
                if code is Code.OK:
                    batch = self.cursor.read()[1]
                    assert isinstance(batch, pa.RecordBatch)
                    parts.append(object_lines(batch))
                    size += len(parts[-1])
                    self._left = None if self._left is None else self._left - batch.num_rows
                    if size > MOST_POLL_BYTES:
                        raise ConfigError(
                            f"the rows exceed the {MOST_POLL_BYTES:,} bytes of a poll",
                            hint="scan with live=true, or subscribe with mode=changes",
                        )
                elif code is not Code.INVALID:
                    raise refused(code)
                elif parts:
                    break
                else:
                    self.idle_at = self.cursor.position
                    self.cursor.wait()
        except (flight.FlightError, pa.ArrowException) as error:
            if not self._cancelled:
                raise as_gauss_error(error) from error
        else:
            yield b"".join(parts)

    def keep(self) -> None:
        """It is read at once or not at all."""

    def cancel(self) -> None:
        self._cancelled = True
        self.cursor.cancel()


async def with_error_line(texts: Lines) -> Lines:
    """The same; what fails after the answer has begun is told by its last line."""
    try:
        async with contextlib.aclosing(texts):  # leaving in the middle ends the read
            async for text in texts:
                yield text
    except GaussError as error:
        yield msgspec.json.encode({"error": error.to_dict()}) + b"\n"


async def _object(parts: Lines, begin: bytes = b"{", end: bytes = b"}") -> Lines:
    before = begin
    async with contextlib.aclosing(parts):
        async for part in parts:
            yield before + part
            before = b",\n"
    yield (begin + end if before == begin else end) + b"\n"


def _headers(cursor: RemoteCursor) -> dict[str, str]:
    opened = cursor.opened
    return {
        "Gauss-Scan": str(opened.scan),
        "Gauss-Version": str(opened.pinned_version),
        "Gauss-Incarnation": str(opened.inc),
    }


def _milliseconds(wait: str) -> int:
    try:
        return min(duration_ms(wait), MOST_WAIT_MS)
    except ValueError as error:
        raise ConfigError(f"wait: {error} (got {wait!r})") from None
