"""Topics over HTTP: list, look, query, tail, append."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Body, Query, Request, Response, WebSocket
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from gauss.api.append import Appending
from gauss.api.reading import Reading
from gauss.api.records import lines, rows, time_ms
from gauss.api.scans import NDJSON, with_error_line
from gauss.api.sockets import Lines, serve_socket
from gauss.api.stored import asked_rows, is_stored, page, row_lines
from gauss.api.tail import follow
from gauss.contracts.cursor import Program, Seq, TimeRange
from gauss.model.errors import ConfigError
from gauss.stream.control.run import Running

PAGE = 1000
BACKUP_SECONDS = 3600.0

From = Annotated[str | None, Query(alias="from", description="ISO time, ms, or a duration before now such as -5m")]
To = Annotated[str | None, Query(description="as `from`; records before it")]
Limit = Annotated[int | None, Query(ge=1, description="records at most")]
Start = Annotated[str | None, Query(description="earliest, end, an offset, or -N for the last N records")]
Format = Annotated[str | None, Query(description="a format of the pipeline that decodes `data`")]
Where = Annotated[str | None, Query(description="only records for which this is true, such as `.bid > 100`")]


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api/topics", tags=["topics"])

    reading = Reading(running)

    @router.get("", summary="Every topic with its counters")
    def list_topics() -> dict[str, Any]:
        return running.command("topics")

    @router.get("/{name}", summary="One topic and its readers")
    def one_topic(name: str) -> dict[str, Any]:
        return running.command("topic", name=name)

    @router.post("/{name}/backup", summary="Copy a file topic into a folder beside the engine while it is written")
    def backup(name: str, folder: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        return running.command("topic.backup", name=name, folder=folder, wait_s=BACKUP_SECONDS)

    @router.get("/{name}/query", summary="Records of a time range, in order")
    def query(
        request: Request,
        name: str,
        *,
        start: From = None,
        to: To = None,
        after: Annotated[str | None, Query(pattern=r"^-?\d+(:\d+)?$", description="`next` of the page before")] = None,
        limit: Limit = None,
        format: Format = None,
    ) -> Response:
        decode = reading.decoder(format)
        streamed = NDJSON in request.headers.get("accept", "")
        asked = limit if limit is not None or streamed else PAGE
        begin, end = time_ms(start, "from"), time_ms(to, "to")
        reading.known(name)
        if is_stored(running.pipeline, name):
            program = asked_rows(begin, end, after)
            if asked is not None and not streamed:
                return _json(page(running, name, program, asked))
            tail = running.client().tail(name, program, limit=asked, full=True)
            return StreamingResponse((row_lines(batch) for batch in tail), media_type=NDJSON)
        view = TimeRange(begin or 0, end) if after is None else Seq(_offset(after))
        batches = running.client().scan(name, Program(view), limit=asked)
        if after is not None:
            batches = _before(batches, end)
        if streamed:
            return StreamingResponse((lines(batch, decode) for batch in batches), media_type=NDJSON)
        found = [row for batch in batches for row in rows(batch, decode)]
        following = found[-1]["offset"] + 1 if asked is not None and len(found) >= asked else None
        return _json({"records": found, "next": following})

    @router.get("/{name}/tail", summary="Records as they come, as NDJSON")
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
        given = socket.query_params
        limit = given.get("limit", "")
        await serve_socket(socket, running.token, lambda: _tailed(name, given, int(limit) if limit.isdigit() else None))

    @router.post("/{name}/records", summary="Append records", status_code=201)
    async def append(
        request: Request,
        name: str,
        *,
        framing: Annotated[str, Query(description="how the body is cut into records")] = "newline",
        delimiter: str | None = None,
        prefix_type: Literal["u16be", "u32be", "varint"] | None = None,
        frame_size: int | None = None,
    ) -> dict[str, Any]:
        given = {"delimiter": delimiter, "prefix_type": prefix_type, "frame_size": frame_size}
        appending = await run_in_threadpool(Appending, running, name, framing, given)
        async for piece in request.stream():
            await run_in_threadpool(appending.feed, piece)
        return await run_in_threadpool(appending.finish)

    return router


def _before(batches: Iterable[pa.RecordBatch], end_ms: int | None) -> Iterator[pa.RecordBatch]:
    """Records before a time; `ts_ms` never decreases within a topic, so that the first later one is the end."""
    for batch in batches:
        kept = batch.num_rows if end_ms is None else int(np.searchsorted(batch.column("ts_ms").to_numpy(), end_ms))
        yield batch.slice(0, kept)
        if kept < batch.num_rows:
            return


def _offset(after: str) -> int:
    if not after.isdigit():
        raise ConfigError(f"after: expected `next` of the page before (got {after!r})", hint="an offset such as 41")
    return int(after)


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), media_type="application/json")
