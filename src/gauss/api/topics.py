"""Topics over HTTP: list, look, query, tail, append."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Query, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from gauss import registry
from gauss.api import auth, errors
from gauss.api.append import Appending
from gauss.api.records import Decode, decoding, lines, rows, time_ms
from gauss.api.tail import follow
from gauss.contracts.format import FormatSpec
from gauss.model.errors import ConfigError, GaussError, NotFound
from gauss.stream.control.run import Running
from gauss.stream.protocol import Scan

NDJSON = "application/x-ndjson"
PAGE = 1000
MAX_RECORD_BYTES = 16 << 20

From = Annotated[str | None, Query(alias="from", description="ISO time, ms, or a duration before now such as -5m")]
To = Annotated[str | None, Query(description="as `from`; records before it")]
Limit = Annotated[int | None, Query(ge=1, description="records at most")]
Start = Annotated[str | None, Query(description="earliest, end, an offset, or -N for the last N records")]
Format = Annotated[str | None, Query(description="a format of the pipeline that decodes `data`")]


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api/topics", tags=["topics"])

    def decoder(name: str | None) -> Decode | None:
        if name is None:
            return None
        found = running.pipeline.format(name)
        if found is None:
            known = ", ".join(entry.name for entry in running.pipeline.formats) or "none"
            raise NotFound(f'the pipeline has no format "{name}"', hint=f"it has: {known}")
        spec = registry.spec(FormatSpec, found.plugin)
        return decoding(registry.build(spec, spec.validate(found.config)).decode)

    def known(topic: str) -> None:
        """Raises before a stream has begun to answer 200."""
        running.command("topic", name=topic)

    @router.get("", summary="Every topic with its counters")
    def list_topics() -> dict[str, Any]:
        return running.command("topics")

    @router.get("/{name}", summary="One topic and its readers")
    def one_topic(name: str) -> dict[str, Any]:
        return running.command("topic", name=name)

    @router.get("/{name}/query", summary="Records of a time range, in order")
    def query(
        request: Request,
        name: str,
        *,
        start: From = None,
        to: To = None,
        after: Annotated[int | None, Query(ge=0, description="`next` of the page before")] = None,
        limit: Limit = None,
        format: Format = None,
    ) -> Response:
        known(name)
        decode = decoder(format)
        streamed = NDJSON in request.headers.get("accept", "")
        asked = limit if limit is not None or streamed else PAGE
        begin, end = time_ms(start, "from"), time_ms(to, "to")
        if after is None:
            batches = running.client().scan(Scan(topic=name, from_ms=begin, to_ms=end, limit=asked))
        else:
            batches = _before(running.client().scan(Scan(topic=name, start=after, limit=asked)), end)
        if streamed:
            return StreamingResponse((lines(batch, decode) for batch in batches), media_type=NDJSON)
        found = [row for batch in batches for row in rows(batch, decode)]
        following = found[-1]["offset"] + 1 if asked is not None and len(found) >= asked else None
        return _json({"records": found, "next": following})

    @router.get("/{name}/tail", summary="Records as they come, as NDJSON")
    async def tail(name: str, start: Start = "end", limit: Limit = None, format: Format = None) -> StreamingResponse:
        await run_in_threadpool(known, name)
        decode = decoder(format)
        stream = await run_in_threadpool(running.client().tail, _live(name, start, limit))
        return StreamingResponse(follow(stream, lambda batch: lines(batch, decode)), media_type=NDJSON)

    @router.websocket("/{name}/tail")
    async def tail_socket(socket: WebSocket, name: str) -> None:
        await socket.accept()
        try:
            auth.check(socket, running.token)
            await run_in_threadpool(known, name)
            given = socket.query_params
            decode = decoder(given.get("format"))
            limit = given.get("limit")
            scan = _live(name, given.get("start", "end"), int(limit) if limit and limit.isdigit() else None)
            stream = await run_in_threadpool(running.client().tail, scan)
            await _send_until_left(socket, follow(stream, lambda batch: lines(batch, decode)))
        except GaussError as error:
            await socket.send_text(msgspec.json.encode({"error": error.to_dict()}).decode())
            await socket.close(4000 + errors.status_of(error))
        except WebSocketDisconnect:
            pass

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


async def _send_until_left(socket: WebSocket, texts: AsyncIterator[bytes]) -> None:
    """A message per record; ends with the stream, or as soon as the client leaves, records or not."""

    async def send() -> None:
        async for text in texts:
            for line in text.splitlines():
                await socket.send_text(line.decode())
        await socket.close()

    async def listen() -> None:
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass

    tasks = [asyncio.create_task(send()), asyncio.create_task(listen())]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for task in done:
        task.result()


def _live(topic: str, start: str | None, limit: int | None) -> Scan:
    text = start or "end"
    number = int(text) if text.isdigit() else text
    if isinstance(number, str) and number not in ("earliest", "end") and not number.lstrip("-").isdigit():
        raise ConfigError(f"start: expected earliest, end, an offset or -N (got {text!r})")
    return Scan(topic=topic, start=number, live=True, limit=limit)


def _before(batches: Iterable[pa.RecordBatch], end_ms: int | None) -> Iterator[pa.RecordBatch]:
    """Records before a time; `ts_ms` never decreases within a topic, so that the first later one is the end."""
    for batch in batches:
        kept = batch.num_rows if end_ms is None else int(np.searchsorted(batch.column("ts_ms").to_numpy(), end_ms))
        yield batch.slice(0, kept)
        if kept < batch.num_rows:
            return


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
