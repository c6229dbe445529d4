"""The routes of database states. Everything goes through the REST interface of the engine; its token stays here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool

from gauss.api.databases.reading import instance_row, job_row, reading
from gauss.api.databases.source import DatabaseSource, checked, known_id
from gauss.clients.dbstates.prepared import kept_ids
from gauss.clients.rest import NDJSON
from gauss.http.tail import follow
from gauss.model.errors import GaussError, Rejected

Kind = Literal["states", "instances", "prepare-jobs"]
_WORDS: dict[Kind, str] = {"states": "state", "instances": "instance", "prepare-jobs": "job"}
_REASONS = {
    "active_connections": "has connections",
    "active_tasks": "is in use",
    "has_descendants": "has states made of it",
    "blocked_by_descendant": "has something below it that is in use",
}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "a line per event, until the job has ended",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}
_READ: dict[int | str, dict[str, Any]] = {
    200: {"description": "the reading", "content": {"application/json": {"schema": {"type": "object"}}}},
    304: {"description": "nothing has changed since the `ETag` in `If-None-Match`"},
}


class Chosen(BaseModel):
    """What to prepare: what an earlier job has prepared, or a database of the pipeline."""

    model_config = ConfigDict(extra="forbid")

    again: str | None = None
    database: str | None = None


class Kept(BaseModel):
    """What can be changed of an instance."""

    model_config = ConfigDict(extra="forbid")

    kept: bool


def routes(source: Callable[[], DatabaseSource]) -> APIRouter:
    router = APIRouter(prefix="/api/databases", tags=["databases"])

    def shown(answer: Any) -> dict[str, Any]:
        found: dict[str, Any] = source().redact(checked(answer))
        return found

    def instance(answer: Any) -> dict[str, Any]:
        return instance_row(shown(answer), kept_ids(source().data_dir))

    @router.get(
        "", summary="The engine, states, instances and jobs at once; starts no engine", responses=_READ,
        response_class=Response,
    )  # fmt: skip
    def databases(request: Request) -> Response:
        body = json.dumps(reading(source())).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    @router.post("/start", summary="Start the engine, if none runs")
    def start() -> dict[str, Any]:
        place = source().started().place
        return {"engine": "running", "since": place["startedAt"]}

    @router.get("/states/{id}", summary="One state, with what its key was made of")
    def state(id: str) -> dict[str, Any]:
        return shown(source().engine().get("states", known_id("state", id)))

    @router.delete("/states/{id}", summary="Remove a state; with recurse also what was made of it")
    def delete_state(id: str, recurse: bool = False, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
        return _remove("states", id, recurse=recurse, force=force, dry_run=dry_run)

    @router.get("/instances/{id}", summary="One instance with its connections; without its DSN")
    def one(id: str) -> dict[str, Any]:
        return instance(source().engine().get("instances", known_id("instance", id)))

    @router.post("/instances/{id}/connection", summary="The DSN of an instance, with its password")
    def connection(id: str) -> dict[str, Any]:
        found = checked(source().started().get("instances", known_id("instance", id)))
        return {"instance_id": found["instance_id"], "dsn": found["dsn"]}

    @router.post("/instances/{id}/reset", summary="Give an instance the content of its state again")
    def reset(id: str) -> dict[str, Any]:
        return instance(source().started().post("instances", known_id("instance", id), "reset"))

    @router.patch("/instances/{id}", summary="Keep an instance when its time ends, or not")
    def keep(id: str, asked: Kept) -> dict[str, Any]:
        return instance(source().started().patch("instances", known_id("instance", id), body=asked.model_dump()))

    @router.delete("/instances/{id}", summary="Remove an instance; with force also one with connections")
    def delete_instance(id: str, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
        return _remove("instances", id, force=force, dry_run=dry_run)

    @router.post("/prepare-jobs", status_code=201, summary="Prepare a database again; starts the engine if needed")
    def prepare(asked: Chosen) -> dict[str, Any]:
        request = source().request(asked.again, asked.database)
        made = checked(source().started().post("prepare-jobs", body=request))
        return {"job_id": made["job_id"], "status": made["status"]}

    @router.post("/explain", summary="Whether that would be a cache hit, and what has changed if not")
    def explain(asked: Chosen) -> dict[str, Any]:
        request = source().request(asked.again, asked.database)
        return shown(source().started().post("cache", "explain", "prepare", body=request))

    @router.get("/prepare-jobs/{id}", summary="One job with its tasks")
    def job(id: str) -> dict[str, Any]:
        return job_row(shown(source().engine().get("prepare-jobs", known_id("job", id))))

    @router.get(
        "/prepare-jobs/{id}/events", summary="The events of a job, as they happen", responses=_STREAM,
        response_class=Response,
    )  # fmt: skip
    async def events(
        id: str, first: Annotated[int, Query(alias="from", ge=1, le=2**53, description="the first event")] = 1
    ) -> Response:
        known = known_id("job", id)
        client = await run_in_threadpool(source().engine)
        lines = await run_in_threadpool(client.watch, known, first)
        redact = source().redact
        texts = follow(lines, lambda line: json.dumps(redact(json.loads(line))).encode() + b"\n")
        return StreamingResponse(_with_error(texts), media_type=NDJSON)

    @router.post("/prepare-jobs/{id}/cancel", status_code=202, summary="Cancel a job")
    def cancel(id: str) -> dict[str, Any]:
        return shown(source().engine().post("prepare-jobs", known_id("job", id), "cancel"))

    @router.delete("/prepare-jobs/{id}", summary="Remove a job; with force also an active one")
    def delete_job(id: str, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
        return _remove("prepare-jobs", id, force=force, dry_run=dry_run)

    def _remove(kind: Kind, given: str, **flags: bool) -> dict[str, Any]:
        """All of it or nothing. Raises Rejected if a rule forbids it, but for a dry run."""
        known = known_id(_WORDS[kind], given)
        asked = {name: "true" for name, wanted in flags.items() if wanted}
        result: dict[str, Any] = source().started().remove(kind, known, **asked)
        if result["outcome"] == "blocked" and not flags["dry_run"]:
            why = _REASONS.get(result["root"].get("reason", ""), "can't be removed")
            raise Rejected(
                f"nothing was removed: {_WORDS[kind]} {known[:12]} {why}",
                hint="dry_run=true shows the tree; force=true and, of states, recurse=true remove more",
            )
        return result

    return router


async def _with_error(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same; what fails after the answer has begun is told by its last line."""
    try:
        async with aclosing(lines):
            async for line in lines:
                yield line
    except GaussError as error:
        yield json.dumps({"error": error.to_dict()}).encode() + b"\n"
