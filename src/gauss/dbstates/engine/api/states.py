"""States and the cache over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gauss.dbstates.engine.api.deleting import DELETED, deletion
from gauss.dbstates.engine.api.listing import LISTED, listing
from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.prepare.requests import PrepareRequest
from gauss.dbstates.store.metadata import Row
from gauss.dbstates.store.states import by_prefix


def routes(engine: DatabaseEngine) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["states"])

    def found(state: str) -> str:
        return by_prefix(engine.metadata, "states", state, 64)

    def shown(row: Row) -> Row:
        parent = row["parent"] if row["parent"] != row["base"] else None
        return {
            "state_id": row["id"],
            "parent_state_id": parent,
            "base_id": row["base"],
            "prepare_kind": row["kind"],
            "engine": row["engine"],
            "version": row["version"],
            "title": row["title"],
            "status": row["status"],
            "error": row["error"] or None,
            "created_ms": row["created_ms"],
            "used_ms": row["used_ms"],
            "hits": row["hits"],
            "bytes": row["bytes"],
            "exclusive_bytes": row["exclusive_bytes"],
            "instances": sum(each["status"] == "ready" for each in engine.instances.of_state(row["id"])),
            "warm": engine.pool.ready(row["id"]),
            "marks": engine.states.marks(row["id"]),
        }

    @router.get("/states", summary="All states with sizes and hits", responses=LISTED, response_class=Response)
    def states(request: Request) -> Response:
        return listing(request, "states", [shown(row) for row in engine.states.all()])

    @router.get("/states/{state_id}", summary="One state, with what its key was made of")
    def state(state_id: str) -> dict[str, Any]:
        known = found(state_id)
        return {**shown(engine.states.get(known)), "ingredients": engine.states.ingredients(known)}

    @router.delete(
        "/states/{state_id}", summary="Remove a state; with recurse also what depends on it", responses=DELETED,
        response_class=Response,
    )  # fmt: skip
    def delete(state_id: str, recurse: bool = False, force: bool = False, dry_run: bool = False) -> Response:
        known = engine.deletion.again("state", state_id, dry_run=dry_run)
        return deletion(known or engine.deletion.state(found(state_id), recurse=recurse, force=force, dry_run=dry_run))

    @router.get("/cache/status", summary="What the cache holds, and how full it is")
    def status() -> dict[str, Any]:
        usage, settings = engine.capacity.usage(), engine.settings().cache.capacity
        rows = engine.states.all()
        return {
            "backend": engine.statefs.name,
            "states": sum(row["status"] == "ready" for row in rows),
            "failed": sum(row["status"] == "failed" for row in rows),
            "used_bytes": usage.used,
            "capacity_bytes": usage.capacity,
            "high_water": settings.highWater,
            "low_water": settings.lowWater,
            "hits": sum(row["hits"] for row in rows),
        }

    @router.post("/cache/explain/prepare", summary="Whether a preparation would be a hit, and why not")
    def explain(asked: PrepareRequest) -> dict[str, Any]:
        return engine.explainer.explain(asked)

    return router
