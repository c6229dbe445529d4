"""`/metrics` in the Prometheus text format: metrics of the engine and of control."""

from __future__ import annotations

import resource
import time
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from gauss.api.syncs import sync_metrics
from gauss.connect.schedule import SyncSchedule
from gauss.http.metrics import TEXT, render
from gauss.model.errors import GaussError
from gauss.stream.control.run import Running


def _own(running: Running, engine_up: bool) -> list[dict[str, Any]]:
    def gauge(name: str, help_text: str, value: float, **labels: str) -> dict[str, Any]:
        return {"name": name, "type": "gauge", "help": help_text, "labels": labels, "value": value}

    found = [
        gauge("gauss_up", "1 while the engine responds", int(engine_up)),
        gauge("gauss_uptime_seconds", "Seconds since the run started", round(time.monotonic() - running.started, 1)),
        gauge("gauss_control_memory_bytes", "Peak resident memory of the control process",
              resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
    ]  # fmt: skip
    for child in running.children:
        name = child.spec.name
        found.append(gauge("gauss_process_up", "1 while a process is up", int(child.state == "ready"), process=name))
        restarts = gauge(
            "gauss_process_restarts_total", "Number of restarts of a process", child.restarts, process=name
        )
        found.append({**restarts, "type": "counter"})
    return found


def routes(running: Running, schedule: SyncSchedule) -> APIRouter:
    router = APIRouter(tags=["run"])

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    def metrics() -> Response:
        try:
            found = running.command("metrics")["metrics"]
        except GaussError:
            found = None  # report that the engine is down instead of failing the scrape
        own = [*_own(running, found is not None), *sync_metrics(schedule)]
        own.sort(key=lambda metric: str(metric["name"]))
        return Response(render([*own, *(found or [])]), media_type=TEXT)

    return router
