"""Routes about what runs: status, assignments, claims, dead letters, workers."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from gauss.api.fleet.access import who
from gauss.api.fleet.models import (
    AssignmentShown,
    ClaimBody,
    LetterEdit,
    LetterExcerpt,
    LetterPlace,
    LetterShown,
    ReplayedShown,
    StatusShown,
    TakeoverShown,
    WorkerShown,
    WorkerSlot,
)
from gauss.api.fleet.statuses import NO_LETTERS, status_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.replay import MOST_LETTERS, replay
from gauss.fleet.status import lag_seconds
from gauss.fleet.store.letters import EXCERPT_BYTES, Place, StoredLetter
from gauss.model.errors import ConfigError, NotFound

Number = Annotated[int, Path(ge=0, lt=2**63)]
Seconds = Annotated[int, Query(ge=1, le=86_400, description="how far back")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="maximum number")]


def routes(store: FleetStore) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["running"])

    @router.get("/pipelines/{id}/status", summary="What a pipeline does, and why it is not what is desired")
    def one_status(id: str) -> StatusShown:
        pipeline = store.pipelines.get(id)
        held, claims = store.leases.assignments(id), store.claims.list(id)
        letters = store.letters.totals().get(id, NO_LETTERS)
        return StatusShown(**status_of(pipeline, held, claims, store.workers.list(), letters))

    @router.get("/pipelines/{id}/assignments", summary="The live leases of a pipeline")
    def assignments(id: str) -> list[AssignmentShown]:
        store.pipelines.get(id)
        names = AssignmentShown.model_fields
        return [
            AssignmentShown(**{name: getattr(each, name) for name in names}) for each in store.leases.assignments(id)
        ]

    @router.get("/pipelines/{id}/takeovers", summary="Who held the slots of a pipeline, by slot and epoch")
    def takeovers(id: str, seconds: Seconds = 3_600) -> list[TakeoverShown]:
        store.pipelines.get(id)
        return [TakeoverShown(**each._asdict()) for each in store.takeovers.list(id, seconds * 1_000)]

    @router.get("/pipelines/{id}/claims", summary="The partitions that workers read, and how far")
    def claims(id: str) -> list[ClaimBody]:
        store.pipelines.get(id)
        return [
            ClaimBody(
                worker_id=each.worker_id,
                slot=each.slot,
                topic=each.topic,
                partition=each.partition,
                epoch=each.epoch,
                next_offset=each.next_offset,
                lag=each.lag,
                lag_seconds=lag_seconds(each),
                pending_to=each.pending_to,
                pending_version=each.pending_version,
            )
            for each in store.claims.list(id)
            if each.worker_id is not None
        ]

    @router.get(
        "/pipelines/{id}/dead-letters",
        summary=f"The newest dead letters of a pipeline, with the first {EXCERPT_BYTES} bytes of each",
    )
    def letters(id: str, limit: Limit = 100, reason: str | None = None) -> list[LetterExcerpt]:
        store.pipelines.get(id)
        return [LetterExcerpt(**_excerpt(each)) for each in store.letters.list(id, limit=limit, reason=reason)]

    @router.get("/pipelines/{id}/dead-letters/{inc}/{offset}", summary="One dead letter with its whole record")
    def letter(id: str, inc: Number, offset: Number) -> LetterShown:
        store.pipelines.get(id)
        found = store.letters.at(id, [(inc, offset)])
        if not found:
            raise NotFound(f"no dead letter at offset {offset}", hint="it was replayed or discarded, or it was old")
        return _letter(found[0])

    @router.put("/pipelines/{id}/dead-letters/{inc}/{offset}", summary="Correct a dead letter before it is replayed")
    def edit(request: Request, id: str, inc: Number, offset: Number, body: LetterEdit) -> LetterShown:
        store.pipelines.get(id)
        return _letter(store.letters.edit(id, (inc, offset), _bytes(body), who(request)))

    @router.post(
        "/pipelines/{id}/dead-letters/replay",
        summary=f"Make rows of dead letters by the newest config, at most {MOST_LETTERS} at once; repeating it is safe",
    )
    def replay_letters(request: Request, id: str, body: list[LetterPlace]) -> list[ReplayedShown]:
        places = _places(body, MOST_LETTERS)
        return [ReplayedShown(**each._asdict()) for each in replay(store, id, places, who(request))]

    @router.post("/pipelines/{id}/dead-letters/discard", summary="Remove dead letters; returns how many there were")
    def discard(request: Request, id: str, body: list[LetterPlace]) -> dict[str, int]:
        store.pipelines.get(id)
        return {"discarded": store.letters.discard(id, _places(body, 1_000), who(request))}

    @router.post(
        "/pipelines/{id}/claims/use-newest-config",
        summary="Let ranges that are stuck with an older config be tried with the newest; returns how many there are",
    )
    def use_newest(request: Request, id: str) -> dict[str, int]:
        return {"ranges": store.claims.use_newest_config(id, who(request))}

    @router.get("/workers", summary="Workers with the slots that they hold")
    def workers() -> list[WorkerShown]:
        held = store.leases.assignments()
        return [
            WorkerShown(
                id=each.id,
                host=each.host,
                pid=each.pid,
                mode=each.mode,
                seen_at=each.seen_at,
                live=each.live,
                slots=[
                    WorkerSlot(pipeline_id=one.pipeline_id, pipeline=one.pipeline, slot=one.slot, epoch=one.epoch)
                    for one in held
                    if one.worker_id == each.id
                ],
            )
            for each in store.workers.list()
        ]

    return router


def _places(body: list[LetterPlace], most: int) -> list[Place]:
    if len(body) > most:
        raise ConfigError(f"expected at most {most} dead letters, found {len(body)}", hint="send several requests")
    return [(each.inc, each.offset) for each in body]


def _bytes(body: LetterEdit) -> bytes | None:
    if body.base64 is not None:
        try:
            return base64.b64decode(body.base64, validate=True)
        except ValueError:  # also what is not ASCII
            raise ConfigError("base64: expected bytes as base64") from None
    return None if body.text is None else body.text.encode()


def _letter(stored: StoredLetter) -> LetterShown:
    data = stored.letter.data
    return LetterShown(**_excerpt(stored), base64=None if data is None else base64.b64encode(data).decode())


def _excerpt(stored: StoredLetter) -> dict[str, Any]:
    letter, data = stored.letter, stored.letter.data
    return {
        **stored.origin._asdict(),
        **{name: getattr(letter, name) for name in ("offset", "stage", "reason", "column", "detail", "ts_ms")},
        "text": None if data is None else data.decode(errors="replace"),
        "size": stored.size,
        "at": stored.at,
        "edited": None if stored.edited is None else stored.edited.decode(errors="replace"),
        "edited_by": stored.edited_by,
    }
