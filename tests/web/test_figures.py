"""Figures that pages ask for again: the same ones are not sent again."""

from __future__ import annotations

import asyncio
import gzip
import json

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gauss.web.figures import Figures

found = {"value": "x" * 5000}


async def figures(_: Request) -> Response:
    return JSONResponse(found)


async def refused(_: Request) -> Response:
    return JSONResponse({"error": "x"}, 404)


async def rows(_: Request) -> Response:
    return StreamingResponse(iter([b"{}\n", b"{}\n"]), media_type="application/x-ndjson")


routes = [
    Route("/api/overview", figures),
    Route("/api/topics/x", refused),
    Route("/api/topics/x/scan", rows),
    Route("/api/topics/x/latest", figures),
]
host = Figures(Starlette(routes=routes))


def get(path: str, **headers: str) -> httpx.Response:
    """The answer as it was sent, not decompressed."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://run") as client:
            request = client.build_request("GET", path, headers={"Accept-Encoding": "identity", **headers})
            reply = await client.send(request, stream=True)
            sent = b"".join([piece async for piece in reply.aiter_raw()])
            return httpx.Response(reply.status_code, headers=reply.headers, stream=httpx.ByteStream(sent))

    return asyncio.run(ask())


def raw(reply: httpx.Response) -> bytes:
    return b"".join(reply.iter_raw())


def test_figures_are_sent_again_only_when_they_have_changed() -> None:
    first = get("/api/overview")
    tag = first.headers["etag"]
    assert json.loads(raw(first)) == found and first.headers["cache-control"] == "private, no-cache"
    again = get("/api/overview", **{"If-None-Match": tag})
    assert (again.status_code, raw(again)) == (304, b"")
    found["value"] = "y" * 5000
    changed = get("/api/overview", **{"If-None-Match": tag})
    assert changed.status_code == 200 and json.loads(raw(changed)) == found


def test_figures_are_compressed_for_those_who_can_read_it() -> None:
    reply = get("/api/overview", **{"Accept-Encoding": "gzip, br"})
    sent = raw(reply)
    assert len(sent) < 500 and json.loads(gzip.decompress(sent)) == found
    assert int(reply.headers["content-length"]) == len(sent) and reply.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("path", ["/api/topics/x", "/api/topics/x/scan", "/api/topics/x/latest"])
def test_records_and_errors_are_not_kept_by_the_browser(path: str) -> None:
    assert "etag" not in get(path).headers
