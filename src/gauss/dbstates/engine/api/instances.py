"""Instances and runs over HTTP."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from gauss.dbstates.engine.api.deleting import DELETED, deletion
from gauss.dbstates.engine.api.listing import LISTED, NDJSON, listing
from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.instances.runs import RunRequest
from gauss.dbstates.store.states import by_prefix
from gauss.http.tail import follow

_RUN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "a line per event, the last one exit or error",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}


class InstanceChange(BaseModel):
    """What can be changed of an instance."""

    model_config = ConfigDict(extra="forbid")

    kept: bool
    """Whether its content stays when its time ends: then only its server is stopped."""


class HeldBy(BaseModel):
    """Who needs the server."""

    model_config = ConfigDict(extra="forbid")

    held_by: str = Field("", pattern="^(/.*)?$")
    """A file on which the client holds a lock: the server runs at least as long."""


def routes(engine: DatabaseEngine) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["instances"])

    def found(instance: str) -> str:
        return by_prefix(engine.metadata, "instances", instance, 32)

    @router.get("/instances", summary="Instances that were handed out", responses=LISTED, response_class=Response)
    def instances(
        request: Request,
        id_prefix: Annotated[str, Query(description="the first digits of the id")] = "",
        state: Annotated[str, Query(description="the state, or its first 8 digits or more")] = "",
        image: str = "",
    ) -> Response:
        rows = [
            engine.instances.shown(row)
            for row in engine.instances.rows("ready")
            if row["id"].startswith(id_prefix) and row["state"].startswith(state) and image in ("", row["image"])
        ]
        return listing(request, "instances", rows)

    @router.get("/instances/{instance_id}", summary="One instance, with its DSN and connections")
    def instance(
        instance_id: str,
        connections: Annotated[bool, Query(description="whether to count them, which takes one to the server")] = True,
    ) -> dict[str, Any]:
        row = engine.instances.row(found(instance_id))
        counted = {"connections": engine.instances.connections(row["id"])} if connections else {}
        return {**engine.instances.shown(row), "dsn": engine.instances.dsn(row), **counted}

    @router.patch("/instances/{instance_id}", summary="Keep the content of an instance when its time ends, or not")
    def change(instance_id: str, asked: InstanceChange) -> dict[str, Any]:
        known = found(instance_id)
        engine.instances.keep(known, kept=asked.kept)
        return engine.instances.shown(engine.instances.row(known))

    @router.post("/instances/{instance_id}/start", summary="Start the server of an instance if it is stopped")
    def start(instance_id: str, asked: HeldBy) -> dict[str, Any]:
        known = found(instance_id)
        if asked.held_by:
            engine.instances.hold(known, asked.held_by)
        engine.instances.revive(known, lambda _: None)
        return instance(known)

    @router.delete(
        "/instances/{instance_id}", summary="Remove an instance; with force also one with connections",
        responses=DELETED, response_class=Response,
    )  # fmt: skip
    def delete(instance_id: str, force: bool = False, dry_run: bool = False) -> Response:
        known = engine.deletion.again("instance", instance_id, dry_run=dry_run)
        return deletion(known or engine.deletion.instance(found(instance_id), force=force, dry_run=dry_run))

    @router.post("/instances/{instance_id}/reset", summary="Give an instance the content of its state again")
    def reset(instance_id: str) -> dict[str, Any]:
        known = found(instance_id)
        row = engine.instances.row(known)
        with engine.cache.pinned([row["state"]]):
            engine.instances.reset(known, engine.cache.path(engine.states.get(row["state"])))
        return engine.instances.shown(engine.instances.row(known))

    @router.post(
        "/runs", summary="Run psql or pgbench on an instance", responses=_RUN, response_class=Response
    )  # fmt: skip
    async def run(asked: RunRequest) -> Response:
        known = await run_in_threadpool(found, asked.instance_id)
        events = engine.runs.events(asked, known)
        lines = follow(events, lambda event: json.dumps(event).encode() + b"\n")
        return StreamingResponse(lines, media_type=NDJSON)

    return router
