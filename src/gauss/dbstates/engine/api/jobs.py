"""Prepare jobs, their tasks and events over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from gauss.dbstates.engine.api.deleting import DELETED, deletion
from gauss.dbstates.engine.api.job_feed import JobFeed
from gauss.dbstates.engine.api.listing import LISTED, NDJSON, listing
from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.prepare.requests import PrepareRequest
from gauss.dbstates.store.states import by_prefix

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "a line per event, until the job has ended",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}
_CREATED: dict[int | str, dict[str, Any]] = {
    201: {
        "description": "the job is stored",
        "headers": {"Location": {"schema": {"type": "string"}}},
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}
_CANCEL: dict[int | str, dict[str, Any]] = {
    200: {"description": "the job has ended already"},
    202: {"description": "the job will end", "content": {"application/json": {"schema": {"type": "object"}}}},
}


def routes(engine: DatabaseEngine) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["jobs"])
    feed = JobFeed(engine.jobs)

    def found(job: str) -> str:
        return by_prefix(engine.metadata, "jobs", job, 32)

    @router.post(
        "/prepare-jobs", summary="Prepare a state and an instance of it", status_code=201, responses=_CREATED,
        response_class=Response,
    )  # fmt: skip
    def create(asked: PrepareRequest) -> Response:
        job = engine.prepare.submit(asked)
        url = f"/v1/prepare-jobs/{job}"
        body = {"job_id": job, "status": "queued", "status_url": url, "events_url": f"{url}/events"}
        return JSONResponse(body, 201, {"Location": url})

    @router.get("/prepare-jobs", summary="All jobs", responses=LISTED, response_class=Response)
    def jobs(request: Request) -> Response:
        return listing(request, "jobs", engine.jobs.all())

    @router.get("/prepare-jobs/{job_id}", summary="One job with its tasks")
    def job(job_id: str) -> dict[str, Any]:
        return engine.jobs.get(found(job_id))

    @router.delete(
        "/prepare-jobs/{job_id}", summary="Remove a job; with force also an active one", responses=DELETED,
        response_class=Response,
    )  # fmt: skip
    def delete(job_id: str, force: bool = False, dry_run: bool = False) -> Response:
        known = engine.deletion.again("job", job_id, dry_run=dry_run)
        return deletion(known or engine.deletion.job(found(job_id), force=force, dry_run=dry_run))

    @router.post(
        "/prepare-jobs/{job_id}/cancel", summary="Cancel a job", status_code=202, responses=_CANCEL,
        response_class=Response,
    )  # fmt: skip
    def cancel(job_id: str) -> Response:
        known = found(job_id)
        asked = engine.prepare.cancel(known)
        return JSONResponse({"job_id": known, "status": engine.jobs.status(known)}, 202 if asked else 200)

    @router.get(
        "/prepare-jobs/{job_id}/events", summary="The events of a job, as they happen", responses=_STREAM,
        response_class=Response,
    )  # fmt: skip
    async def events(
        job_id: str, first: Annotated[int, Query(alias="from", ge=1, description="the first event")] = 1
    ) -> Response:
        known = await run_in_threadpool(found, job_id)
        return StreamingResponse(feed.lines(known, first), media_type=NDJSON)

    @router.get("/tasks", summary="Tasks, of one job or of all", responses=LISTED, response_class=Response)
    def tasks(request: Request, job: str | None = None) -> Response:
        return listing(request, "tasks", engine.jobs.tasks(None if job is None else found(job)))

    return router
