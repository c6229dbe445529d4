"""Health, settings, metrics and the end of the engine over HTTP."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, JsonValue

from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.settings import Settings, at, effective, usable
from gauss.http.metrics import TEXT
from gauss.model.errors import NotFound


class Change(BaseModel):
    """A setting to change."""

    model_config = ConfigDict(extra="forbid")

    path: str
    """Its dotted path, such as `instances.ttlSecs`."""
    value: JsonValue


def routes(engine: DatabaseEngine) -> APIRouter:
    router = APIRouter(tags=["engine"])

    @router.get("/v1/health", summary="Whether the engine is up; needs no token")
    def health() -> dict[str, Any]:
        return {"ok": True, "version": version("gauss"), "instanceId": engine.instance, "pid": os.getpid()}

    @router.get("/v1/config", summary="Settings: those that were changed, or all with effective")
    def config(path: str = "", effective: bool = False) -> dict[str, Any]:
        stored = engine.metadata.stored_settings()
        if effective:
            return {"path": path, "value": at(engine.settings().model_dump(), path)}
        if not path:
            return {"path": "", "value": stored}
        at(Settings().model_dump(), path)
        mine = {name: value for name, value in stored.items() if name == path or name.startswith(f"{path}.")}
        return {"path": path, "value": mine.get(path, mine or None)}

    @router.patch("/v1/config", summary="Change a setting")
    def change(asked: Change) -> dict[str, Any]:
        stored = engine.metadata.stored_settings()
        kept = {name: value for name, value in stored.items() if not name.startswith(f"{asked.path}.")}
        engine.check_settings(effective({**usable(kept), asked.path: asked.value}))
        with engine.metadata.transaction():
            for name in stored.keys() - kept.keys():
                engine.metadata.execute("DELETE FROM settings WHERE path = ?", name)
            engine.metadata.insert("settings", path=asked.path, value=json.dumps(asked.value))
        engine.change_settings()
        engine.audit.note("config_changed", path=asked.path)
        return {"path": asked.path, "value": asked.value}

    @router.delete("/v1/config", summary="Set a setting back to its default")
    def restore(path: str) -> dict[str, Any]:
        stored = engine.metadata.stored_settings()
        gone = [name for name in stored if name == path or name.startswith(f"{path}.")]
        if not gone:
            at(Settings().model_dump(), path)
        for name in gone:
            engine.metadata.execute("DELETE FROM settings WHERE path = ?", name)
        engine.change_settings()
        engine.audit.note("config_restored", path=path)
        try:
            return {"path": path, "value": at(engine.settings().model_dump(), path)}
        except NotFound:  # a key of a table, such as parameters.work_mem
            return {"path": path, "value": None}

    @router.get("/v1/config/schema", summary="The JSON schema of all settings")
    def schema() -> dict[str, Any]:
        return Settings.model_json_schema()

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    def metrics() -> Response:
        usage = engine.capacity.usage()
        gauges: dict[str, tuple[str, float]] = {
            "states": ("States in the cache", sum(row["status"] == "ready" for row in engine.states.all())),
            "instances": ("Instances that were handed out", len(engine.instances.rows("ready"))),
            "used_bytes": ("Bytes that states take, shared ones once", usage.used),
            "capacity_bytes": ("Bytes that states may take", usage.capacity),
        }
        return Response(engine.metrics.text(gauges), media_type=TEXT)

    @router.post("/v1/shutdown", summary="End the engine and the servers of all instances")
    def shutdown() -> dict[str, Any]:
        count = len(engine.instances.rows("ready"))
        engine.end()
        return {"status": "stopped", "instances": count}

    return router
