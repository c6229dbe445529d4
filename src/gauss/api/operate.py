"""Health, processors, readers, dead letters and the graph over HTTP."""

from __future__ import annotations

import base64
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Body, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from gauss.api.letters import bad_place, corrected_bytes
from gauss.api.records import MOST, whole_number
from gauss.api.sync_letters import letters_of_syncs, newest_letters
from gauss.api.trial import tried
from gauss.contracts.processor import Role
from gauss.model.errors import ConfigError
from gauss.stream.control.run import Running
from gauss.stream.graph import Graph

_MEDIA = {"text": "text/plain; charset=utf-8", "mermaid": "text/plain; charset=utf-8", "svg": "image/svg+xml"}


MOST_LETTERS = 1000
Place = Annotated[int, Field(ge=0, le=MOST)]


class ReplayRequest(BaseModel):
    """Selects dead letters. Unknown keys are rejected: a misspelt one would select all."""

    model_config = ConfigDict(extra="forbid")

    processor: str | None = None
    reason: str | None = None
    stage: str | None = None
    offsets: list[Place] | None = Field(
        default=None, description="numbers of letters, which stay when others are discarded"
    )
    before: Place | None = Field(
        default=None, description="only smaller numbers, so that letters which arrive later are not among them"
    )


class Corrected(ReplayRequest):
    """Selects dead letters to replay, some of them with other bytes."""

    data: dict[Place, str | dict[str, str]] | None = Field(
        None, description='corrected records by number: text, or {"base64": …}; needs `processor`'
    )


class Try(BaseModel):
    """A corrected record, to be tried."""

    model_config = ConfigDict(extra="forbid")

    processor: str
    data: str | dict[str, str]


class Discard(ReplayRequest):
    """Selects dead letters; all of them only with `all`."""

    all: bool = False
    any: list[ReplayRequest] | None = Field(None, description="several choices at once")


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api")

    @router.get("/health", tags=["run"], summary="Health of listeners and queries, with reasons")
    def health() -> dict[str, Any]:
        return running.health()

    @router.get(
        "/status", tags=["run"], summary="Health, topics and processors with rates, and syncs, as in `gauss top`"
    )
    def status() -> dict[str, Any]:
        return running.sampler.status()

    @cache
    def planned_graph() -> Graph:
        from gauss.stream.driver.planning.explain import planned  # loads the formats

        return planned(running.pipeline, running.graph)

    @router.get("/graph", tags=["run"], summary="The graph: topics, processors, how each runs, and columns to draw it")
    def graph(format: Literal["text", "mermaid", "svg", "json"] = "json") -> Response:
        found = planned_graph()
        if format == "json":
            from gauss.api.draw.layout import columns, edges

            shown = {**found.to_dict(), "columns": columns(found), "edges": edges(found)}
            return Response(msgspec.json.encode(running.redactor.redact_data(shown)), media_type="application/json")
        from gauss.api.draw import DRAWINGS

        return Response(running.redactor.redact(DRAWINGS[format](found)), media_type=_MEDIA[format])

    @router.get("/processors", tags=["processors"], summary="All processors with state and counters")
    def processors() -> dict[str, Any]:
        return running.command("processors.ls")

    @router.post("/processors/{name}/retry", tags=["processors"], summary="Retry a failed processor")
    def retry(name: str) -> dict[str, Any]:
        return running.command("processors.retry", name=name)

    @router.post("/processors/{name}/skip", tags=["processors"], summary="Skip the records at which a processor fails")
    def skip(name: str) -> dict[str, Any]:
        return running.command("processors.skip", name=name)

    @router.post("/processors/{name}/drop-state", tags=["processors"], summary="Continue without lost state")
    def drop_state(name: str) -> dict[str, Any]:
        return running.command("processors.drop_state", name=name)

    @router.post(
        "/processors/{name}/rebuild", tags=["processors"], summary="Empty the target and read everything again"
    )
    def rebuild(name: str) -> dict[str, Any]:
        return running.command("processors.rebuild", name=name)

    @router.get("/readers", tags=["readers"], summary="Registered readers")
    def readers(topic: str | None = None) -> dict[str, Any]:
        return running.command("readers.ls", topic=topic)

    @router.post("/readers/{topic:path}/{reader}/seek", tags=["readers"], summary="Move a reader")
    def seek(topic: str, reader: str, to: Annotated[str | Place, Body(embed=True)]) -> dict[str, Any]:
        place = whole_number(to, "to") if isinstance(to, str) and to[:1].isdigit() else to
        return running.command("readers.seek", topic=topic, reader=reader, to=place)

    @router.delete("/readers/{topic:path}/{reader}", tags=["readers"], summary="Drop a reader")
    def drop(topic: str, reader: str) -> dict[str, Any]:
        return running.command("readers.drop", topic=topic, reader=reader)

    @router.get("/dlq", tags=["dead letters"], summary="Count dead letters by reason, stage and processor or sync")
    def dead_letters(processor: str | None = None) -> dict[str, Any]:
        found = running.command("dlq.ls", processor=processor)
        if processor is not None:
            return found
        of_syncs = [group for each in letters_of_syncs(running) for group in each.groups()]
        total = found["total"] + sum(group["count"] for group in of_syncs)
        return {"total": total, "groups": [*found["groups"], *of_syncs]}

    @router.get("/dlq/letters", tags=["dead letters"], summary="Dead letters, newest first")
    def letters(
        *,
        processor: str | None = None,
        reason: str | None = None,
        stage: str | None = None,
        sync: Annotated[str | None, Query(description="those of this sync; without it, those of processors")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_LETTERS)] = 20,
        before: Annotated[int | None, Query(ge=0, le=MOST)] = None,
    ) -> dict[str, Any]:
        if sync is not None:
            if processor is not None:
                raise ConfigError("processor and sync select different dead letters", hint="give one of them")
            return {"letters": newest_letters(running, sync, reason=reason, stage=stage, before=before)[:limit]}
        found = running.command("dlq.show", processor=processor, reason=reason, stage=stage, limit=limit, before=before)
        return {"letters": [{**letter, "bad_place": bad_place(letter)} for letter in found["letters"]]}

    @router.post("/dlq/try", tags=["dead letters"], summary="Whether a corrected record would pass; changes nothing")
    def try_(asked: Try) -> Response:
        return Response(tried(running, asked.processor, corrected_bytes(asked.data)), media_type="application/json")

    @router.post("/dlq/replay", tags=["dead letters"], summary="Replay dead letters, as they are or corrected")
    def replay(asked: Annotated[Corrected | None, Body()] = None) -> dict[str, Any]:
        asked = asked or Corrected(data=None)
        if asked.processor is not None:
            data = {str(place): corrected_bytes(each) for place, each in (asked.data or {}).items()}
            corrected = {place: base64.b64encode(each).decode() for place, each in data.items()} or None
            return running.command("dlq.replay", **asked.model_dump(exclude={"data"}), corrected=corrected)
        if asked.data:
            raise ConfigError("corrected records need their processor", hint='pass "processor"')
        return _replay_all(running, asked)

    @router.post("/dlq/discard", tags=["dead letters"], summary="Delete dead letters")
    def discard(asked: Discard) -> dict[str, Any]:
        chosen: list[ReplayRequest] = [asked] if asked.any is None else asked.any
        if not asked.all and not all(map(_chooses, chosen)):
            raise ConfigError(
                "no dead letters selected",
                hint='pass "processor", "reason", "stage", "offsets" or "all": true',
            )
        keys = set(ReplayRequest.model_fields)
        return running.command("dlq.discard", any=[each.model_dump(include=keys) for each in chosen])

    return router


def _chooses(asked: ReplayRequest) -> bool:
    return bool(asked.processor or asked.reason or asked.stage or asked.offsets)


def _replay_all(running: Running, asked: ReplayRequest) -> dict[str, Any]:
    """Replays the letters of transforms; those of edges were never records, so they count as refused."""
    total: dict[str, Any] = {"replayed": 0, "already": 0, "refused": 0, "refused_hint": ""}
    groups = running.command("dlq.ls")["groups"]
    chosen = asked.model_dump(include=set(ReplayRequest.model_fields) - {"processor"})
    for name in dict.fromkeys(group["processor"] for group in groups):
        node = running.graph.processors.get(name)
        if node is not None and node.role is Role.TRANSFORM:
            done = running.command("dlq.replay", processor=name, **chosen)
            for key in ("replayed", "already", "refused"):
                total[key] += done[key]
        elif asked.offsets is None and asked.before is None:
            mine = [group for group in groups if group["processor"] == name and asked.reason in (None, group["reason"])]
            mine = [group for group in mine if asked.stage in (None, group["stage"])]
            total["refused"] += sum(group["count"] for group in mine)
    if total["refused"]:
        total["refused_hint"] = "they were never records of a topic, or are truncated: correct them and send them again"
    return total
