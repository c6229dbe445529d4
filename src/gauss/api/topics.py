"""Routes of topics: list, show, query, tail, append, back up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
from fastapi import APIRouter, Body, Query, Request, Response, WebSocket
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from gauss.api.append import MAX_RECORD_BYTES, Appending
from gauss.api.paging import MOST_PAGE_BYTES, by_version, gathered, page_rows
from gauss.api.reading import TopicReading
from gauss.api.records import MOST, Decode, lines, time_ms, whole_number
from gauss.api.scans import NDJSON, Snapshot, with_error_line
from gauss.api.sockets import Lines, serve_socket
from gauss.api.stored import asked_rows, is_stored, page, row_lines
from gauss.contracts.cursor import Program, Seq, TimeRange
from gauss.contracts.storage import TopicKind
from gauss.http.tail import follow
from gauss.model.errors import ConfigError
from gauss.stream.control.run import Running

BACKUP_SECONDS = 3600.0

From = Annotated[str | None, Query(alias="from", description="start time: ISO 8601, Unix ms, or relative such as -5m")]
To = Annotated[str | None, Query(description="end time (exclusive), as `from`")]
Limit = Annotated[int | None, Query(ge=1, le=MOST, description="maximum records")]
PageLimit = Annotated[
    int | None, Query(ge=1, le=MOST, description="maximum records; a JSON page has at most 10,000 or 8 MiB")
]
Start = Annotated[str | None, Query(description="earliest, end, an offset, or -N for the last N records")]
Format = Annotated[str | None, Query(description="a format of the pipeline to decode `data`")]
After = Annotated[
    str | None, Query(pattern=r"^-?[0-9]{1,19}(:[0-9]{1,19})?$", description="`next` of the previous page")
]
Where = Annotated[str | None, Query(description="only records that match this condition, such as `.bid > 100`")]


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api/topics", tags=["topics"])

    reading = TopicReading(running)

    @router.get("", summary="All topics with counters")
    def list_topics() -> dict[str, Any]:
        return running.command("topics")

    @router.get("/{name}", summary="One topic and its readers")
    def one_topic(name: str) -> dict[str, Any]:
        return running.command("topic", name=name)

    @router.post("/{name}/backup", summary="Back up a file topic into a folder on the machine of the engine")
    def backup(name: str, folder: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        return running.command("topic.backup", name=name, folder=folder, wait_s=BACKUP_SECONDS)

    @router.get("/{name}/query", summary="Records of a time range, in order")
    def query(
        request: Request,
        name: str,
        *,
        start: From = None,
        to: To = None,
        after: After = None,
        limit: PageLimit = None,
        format: Format = None,
        snapshot: Snapshot = False,
    ) -> Response:
        decode = reading.decoder(format)
        streamed = NDJSON in request.headers.get("accept", "")
        asked = limit if streamed else page_rows(limit)
        begin, end = _range_ms(start, to)
        known = reading.known(name)
        is_table = snapshot or known["kind"] == TopicKind.TABLE
        if is_stored(running.pipeline, name):
            program = asked_rows(begin, end, after)
            if asked is not None and not streamed:
                return _json(page(running, name, program, asked))
            tail = running.client().tail(name, program, limit=asked, full=True)
            return StreamingResponse(with_error_line(follow(tail, row_lines)), media_type=NDJSON)
        if after is None or is_table:
            program, times = Program(TimeRange(begin, end)), None
        else:
            program, times = Program(Seq(_offset(after))), (begin, end)
        # A table gives rows by key, where no page could go on: pages are chosen of all of them.
        pages = is_table and (after is not None or not streamed)
        filtered = times is not None and known["times_vary"]  # a limit counts what is left
        most = None if pages or filtered else asked
        tail = running.client().tail(name, program, limit=most, full=True, rows=snapshot)
        if streamed and not pages:
            left = asked

            def text(batch: pa.RecordBatch) -> bytes:
                nonlocal left
                kept = _within(batch, times)
                if filtered and left is not None:
                    kept = kept.slice(0, left)
                    left -= len(kept)
                if left == 0 or (len(kept) < len(batch) and not filtered):  # only later ones follow
                    tail.cancel()
                return lines(kept, decode)

            return StreamingResponse(with_error_line(follow(tail, text)), media_type=NDJSON)
        try:
            batches: Iterable[pa.RecordBatch]
            if pages:
                batches, more = by_version(tail, _offset(after or "0"), asked)
            else:
                batches, more = (_within(batch, times) for batch in tail), False
            if streamed:
                return Response(_all_lines(batches, more, asked, decode), media_type=NDJSON)
            assert asked is not None
            found, full = gathered(batches, asked, decode)
        finally:
            tail.cancel()
        return _json({"records": found, "next": found[-1]["offset"] + 1 if found and (more or full) else None})

    @router.get("/{name}/tail", summary="Follow a topic; records as NDJSON")
    async def tail(
        name: str, *, start: Start = "end", limit: Limit = None, where: Where = None, format: Format = None
    ) -> StreamingResponse:
        texts = await _tailed(name, {"start": start, "where": where, "format": format}, limit)
        return StreamingResponse(with_error_line(texts), media_type=NDJSON)

    async def _tailed(name: str, given: Mapping[str, str | None], limit: int | None) -> Lines:
        format_name = given.get("format")
        decode = reading.decoder(format_name)
        program = await run_in_threadpool(
            reading.tail, name, given.get("start"), where=given.get("where"), format_name=format_name
        )
        stream = await run_in_threadpool(running.client().tail, name, program, limit=limit, name="tail")
        return follow(stream, lambda batch: lines(batch, decode))

    @router.websocket("/{name}/tail")
    async def tail_socket(socket: WebSocket, name: str) -> None:
        """A message per record, with the same parameters."""
        given = socket.query_params

        async def begin() -> Lines:
            return await _tailed(name, given, _limit(given.get("limit")))

        await serve_socket(socket, begin)

    @router.post("/{name}/records", summary="Append records", status_code=201)
    async def append(
        request: Request,
        name: str,
        *,
        framing: Annotated[str, Query(description="the framing of the body")] = "newline",
        delimiter: Annotated[str | None, Query(description="delimiter of `newline`; default: a newline")] = None,
        prefix_type: Annotated[
            Literal["u16be", "u32be", "varint"] | None, Query(description="prefix of `length_prefixed`")
        ] = None,
        frame_size: Annotated[
            int | None, Query(ge=1, le=MAX_RECORD_BYTES, description="record size of `fixed_size`, in bytes")
        ] = None,
    ) -> dict[str, Any]:
        given = {"delimiter": delimiter, "prefix_type": prefix_type, "frame_size": frame_size}
        appending = await run_in_threadpool(Appending, running, name, framing, given)
        async for piece in request.stream():
            await run_in_threadpool(appending.feed, piece)
        return await run_in_threadpool(appending.finish)

    return router


def _within(batch: pa.RecordBatch, times: tuple[int, int | None] | None) -> pa.RecordBatch:
    """The records with `start <= ts_ms < end`."""
    if times is None:
        return batch
    start, end = times
    found = batch.column("ts_ms").to_numpy()
    wanted = found >= start if end is None else (found >= start) & (found < end)
    return batch if wanted.all() else batch.filter(pa.array(wanted))


def _all_lines(batches: Iterable[pa.RecordBatch], more: bool, asked: int | None, decode: Decode | None) -> bytes:
    """All rows of a table from a version, sorted here, so they must fit into a page."""
    if more and asked is None:
        raise ConfigError(
            f"the rows exceed the {MOST_PAGE_BYTES:,} bytes that can be sorted",
            hint="remove Accept: application/x-ndjson and follow `next`",
        )
    return b"".join(lines(batch, decode) for batch in batches)


def _range_ms(start: str | None, to: str | None) -> tuple[int, int | None]:
    """The bounds of a time range."""
    begin, end = max(time_ms(start, "from") or 0, 0), time_ms(to, "to")
    if end is not None and end < begin:
        raise ConfigError(f"expected `from` before `to`, found {start or begin} to {to}")
    return begin, end


def _offset(after: str) -> int:
    try:
        return whole_number(after, "after")
    except ConfigError:
        raise ConfigError(
            f"after: expected `next` of the previous page (got {after[:40]!r})", hint="an offset such as 41"
        ) from None


def _limit(given: str | None) -> int | None:
    return None if given is None else whole_number(given, "limit", least=1)


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), media_type="application/json")
