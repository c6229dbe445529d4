"""Routes of versions of configs, the audit log and tokens."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from gauss.api.fleet.access import who
from gauss.api.fleet.models import AuditShown, DifferenceShown, NewToken, TokenMade, TokenShown, Version, VersionShown
from gauss.fleet.config.stored import shown, without_secrets
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role, Token
from gauss.fleet.store.configs import Config, Kind
from gauss.fleet.store.differences import differences
from gauss.model.errors import NotFound

Limit = Annotated[int, Query(ge=1, le=1_000, description="maximum number")]
Number = Annotated[int, Query(ge=0, lt=2**63)]
PipelineId = Annotated[str | None, Query(alias="pipelineId", description="only changes of this pipeline")]


def routes(store: FleetStore) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["history"])

    @router.get("/pipelines/{id}/versions", summary="All versions of the configs, the newest first")
    def versions(id: str) -> list[VersionShown]:
        store.pipelines.get(id)
        return [VersionShown(**{**each._asdict(), "kinds": list(each.kinds)}) for each in store.configs.versions(id)]

    @router.get("/pipelines/{id}/versions/diff", summary="What differs between two versions; secrets are masked")
    def diff(id: str, before: Number, after: Number) -> list[DifferenceShown]:
        _check_version(id, max(before, after))
        found = differences(*(_as_of(id, version) for version in (before, after)))
        return [DifferenceShown(**each._asdict()) for each in found]

    @router.get("/pipelines/{id}/versions/{version}", summary="All parts of the config at a version, secrets masked")
    def one_version(id: str, version: int) -> dict[str, Any]:
        _check_version(id, version)
        return {str(kind): shown(kind, config) for kind, config in store.configs.as_of(id, version).items()}

    @router.post("/pipelines/{id}/versions/{version}/rollback", summary="Make a version that equals an earlier one")
    def rollback(request: Request, id: str, version: int) -> Version:
        return Version(version=store.configs.rollback(id, version, who(request)))

    def _as_of(id: str, version: int) -> dict[Kind, Config]:
        return {kind: without_secrets(kind, config) for kind, config in store.configs.as_of(id, version).items()}

    def _check_version(id: str, version: int) -> None:
        newest = store.pipelines.get(id).version
        if not 0 <= version <= newest:
            raise NotFound(f"no version {version}", hint=f"this pipeline has versions 1 to {newest}")

    @router.get("/audit", summary="Who changed what, the newest first")
    def audit(limit: Limit = 100, before: Number | None = None, pipeline_id: PipelineId = None) -> list[AuditShown]:
        found = store.audit.entries(limit=limit, before=before, pipeline_id=pipeline_id)
        return [AuditShown(**each._asdict()) for each in found]

    @router.get("/tokens", summary="All tokens, without their texts")
    def tokens() -> list[TokenShown]:
        return [TokenShown(**_shown(each)) for each in store.tokens.list()]

    @router.post("/tokens", status_code=201, summary="Make a token; its text is shown only now")
    def make(request: Request, body: NewToken) -> TokenMade:
        token, text = store.tokens.create(body.name, Role[body.role.upper()], who(request))
        return TokenMade(**_shown(token), token=text)

    @router.delete("/tokens/{id}", status_code=204, summary="Revoke a token at once")
    def revoke(request: Request, id: str) -> None:
        store.tokens.revoke(id, who(request))

    return router


def _shown(token: Token) -> dict[str, Any]:
    return {**token._asdict(), "role": token.role.title}
