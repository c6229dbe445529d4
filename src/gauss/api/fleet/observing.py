"""Probes, metrics and events."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.metadata import version
from typing import Any

import msgspec
import sqlalchemy as sa
from fastapi import APIRouter, FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from gauss.api import pages
from gauss.api.fleet.metrics import fleet_metrics
from gauss.api.fleet.models import StatusShown
from gauss.api.fleet.statuses import NO_LETTERS, status_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.status import by_pipeline
from gauss.http.metrics import TEXT, render
from gauss.model.errors import GaussError

EVENT_SECONDS = 1.0


def routes(store: FleetStore, app: FastAPI) -> APIRouter:
    router = APIRouter(tags=["observing"])

    @router.get("/healthz", summary="200 while the process responds")
    def health() -> dict[str, Any]:
        return {"status": "up"}

    @router.get("/readyz", summary="200 while the store answers", responses={503: {"description": "down"}})
    def ready() -> JSONResponse:
        try:
            with store.database.transaction() as connection:
                connection.execute(sa.text("SELECT 1"))  # a transaction without a statement sends nothing to Postgres
        except GaussError:
            return JSONResponse({"status": "down"}, 503)
        return JSONResponse({"status": "up"})

    @router.get("/api", summary="The version")
    def about() -> dict[str, str]:
        return {"name": "gauss fleet", "version": version("gauss"), "store": store.kind}

    @router.get("/docs", summary="The API reference as a page", response_class=Response)
    def docs() -> Response:
        return pages.reference(app.openapi())

    @router.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
    def metrics() -> Response:
        return Response(render(fleet_metrics(store)), media_type=TEXT)

    @router.websocket("/api/events")
    async def events(socket: WebSocket) -> None:
        """The status of each pipeline as it changes."""
        await socket.accept()
        known: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                try:
                    now = await run_in_threadpool(statuses, store)
                except GaussError as error:
                    await socket.send_text(msgspec.json.encode({"error": error.to_dict()}).decode())
                else:
                    changed = [each for key, each in now.items() if known.get(key) != each]
                    gone = [key for key in known if key not in now]
                    if changed or gone or not known:
                        message = {"pipelines": changed, "deleted": gone}
                        await socket.send_text(msgspec.json.encode(message).decode())
                    known = now
                if not await _waits(socket):
                    return

    return router


async def _waits(socket: WebSocket) -> bool:
    """Waits for the next look; False if the client has left."""
    try:
        message = await asyncio.wait_for(socket.receive(), EVENT_SECONDS)
    except TimeoutError:
        return True
    return bool(message["type"] != "websocket.disconnect")


def statuses(store: FleetStore) -> dict[str, dict[str, Any]]:
    """The status of all pipelines by id."""
    held, workers, claims = by_pipeline(store.leases.assignments()), store.workers.list(), store.claims.all()
    letters = store.letters.totals()
    found = {}
    for each in store.pipelines.list():
        known = held.get(each.id, []), claims.get(each.id, []), workers, letters.get(each.id, NO_LETTERS)
        seen = StatusShown(**status_of(each, *known))
        found[each.id] = {"id": each.id, "name": each.name, "replicas": each.replicas, **seen.model_dump(by_alias=True)}
    return found
