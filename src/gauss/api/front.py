"""Routes outside /api: the index, the reference page, and the probes."""

from __future__ import annotations

import threading
import time
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse

from gauss.api import pages
from gauss.stream.control.run import Running

PROBE_SECONDS = 1.0
"""How long a probe result is cached, so that probes do not load the engine."""
LINKS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/api/health",
    "status": "/api/status",
    "topics": "/api/topics",
    "processors": "/api/processors",
    "syncs": "/api/syncs",
    "metrics": "/metrics",
}


class Probe:
    """Whether the run is ready; asks the engine at most once per second."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._is_ready = False

    def is_ready(self) -> bool:
        with self._lock:
            if time.monotonic() - self._asked_at > PROBE_SECONDS:
                self._is_ready = self._running.health()["status"] == "ready"
                self._asked_at = time.monotonic()
            return self._is_ready


def routes(running: Running, app: FastAPI) -> APIRouter:
    router = APIRouter(tags=["pages"])
    probe = Probe(running)

    @router.get("/", summary="The paths of the API; for a browser, the pages of the run")
    def index() -> Response:
        return JSONResponse({"name": "gauss", "version": version("gauss"), "links": LINKS})

    @router.get("/docs", summary="The API reference as a page", response_class=Response)
    def docs() -> Response:
        return pages.reference(app.openapi())

    @router.get("/livez", summary="Liveness probe: 200 while the process responds")
    def live() -> dict[str, Any]:
        return {"status": "up"}

    @router.get(
        "/readyz",
        summary="Readiness probe: 200 while health is `ready`, else 503",
        responses={503: {"description": "down"}},
    )
    def ready() -> JSONResponse:
        is_ready = probe.is_ready()
        return JSONResponse({"status": "up" if is_ready else "down"}, 200 if is_ready else 503)

    return router
