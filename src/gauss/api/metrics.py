"""`/metrics` in the Prometheus text format: metrics of the engine and of control."""

from __future__ import annotations

import resource
import time
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from gauss.api.syncs import sync_metrics
from gauss.connect.schedule import SyncSchedule
from gauss.model.errors import GaussError
from gauss.stream.control.run import Running

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def render(metrics: list[dict[str, Any]]) -> str:
    """The exposition text, with samples grouped by name."""
    families: dict[str, list[dict[str, Any]]] = {}
    for metric in metrics:
        families.setdefault(metric["name"], []).append(metric)
    out = []
    for name, samples in families.items():
        help_text = str(samples[0].get("help", "")).replace("\\", "\\\\").replace("\n", "\\n")
        out.append(f"# HELP {name} {help_text}\n# TYPE {name} {samples[0]['type']}\n")
        for sample in samples:
            labels = ",".join(f'{key}="{_escape(str(value))}"' for key, value in sample.get("labels", {}).items())
            out.append(f"{name}{{{labels}}} {sample['value']}\n" if labels else f"{name} {sample['value']}\n")
    return "".join(out)


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
