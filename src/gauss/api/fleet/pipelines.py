"""Routes of pipelines: made, changed, started, stopped, deleted; their configs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from gauss.api.fleet.access import who
from gauss.api.fleet.models import NewPipeline, PipelineChange, PipelineShown, State, StateChange
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.config.file import PipelineFile
from gauss.fleet.config.filters import FiltersConfig
from gauss.fleet.config.kafka import KafkaConfig
from gauss.fleet.config.stored import TO_STORE, shown
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.store.configs import Kind
from gauss.fleet.store.pipelines import Pipeline
from gauss.model.errors import NotFound

PATHS: dict[Kind, tuple[str, type[Any]]] = {
    Kind.KAFKA: ("kafka-config", KafkaConfig),
    Kind.CLICKHOUSE: ("clickhouse-config", ClickHouseConfig),
    Kind.FILTERS: ("filters-config", FiltersConfig),
    Kind.MAPPING: ("mapping", Mapping),
    Kind.FILE: ("file-config", PipelineFile),
}


def routes(store: FleetStore) -> APIRouter:
    router = APIRouter(prefix="/api/pipelines", tags=["pipelines"])
    pipelines = store.pipelines

    @router.get("", summary="All pipelines")
    def list_pipelines() -> list[PipelineShown]:
        return [_shown(each) for each in pipelines.list()]

    @router.post("", status_code=201, summary="Create a pipeline: stopped, one replica")
    def create(request: Request, body: NewPipeline) -> PipelineShown:
        return _shown(pipelines.create(body.name, body.description, who(request)))

    @router.get("/{id}", summary="One pipeline")
    def one(id: str) -> PipelineShown:
        return _shown(pipelines.get(id))

    @router.put("/{id}", summary="Change name, description, and the share of dead letters that raises an alert")
    def update(request: Request, id: str, body: PipelineChange) -> PipelineShown:
        return _shown(pipelines.update(id, who(request), **body.model_dump()))

    @router.delete("/{id}", status_code=204, summary="Delete a pipeline, also while it is started")
    def delete(request: Request, id: str) -> None:
        pipelines.delete(id, who(request))

    @router.get("/{id}/state", summary="What is wanted of a pipeline")
    def state(id: str) -> State:
        return _state(pipelines.get(id))

    @router.put("/{id}/state", summary="Set what is wanted of a pipeline")
    def set_state(request: Request, id: str, body: State) -> State:
        return _state(pipelines.change_state(id, who(request), desired=body.desired, replicas=body.replicas))

    @router.patch("/{id}/state", summary="Change what is named of the desired state")
    def change_state(request: Request, id: str, body: StateChange) -> State:
        return _state(pipelines.change_state(id, who(request), desired=body.desired, replicas=body.replicas))

    @router.post("/{id}/start", summary="Start a pipeline")
    def start(request: Request, id: str) -> State:
        return _state(pipelines.change_state(id, who(request), desired="started"))

    @router.post("/{id}/stop", summary="Stop a pipeline")
    def stop(request: Request, id: str) -> State:
        return _state(pipelines.change_state(id, who(request), desired="stopped"))

    for kind, (path, model) in PATHS.items():
        _config_routes(router, store, kind, path, model)
    return router


def _config_routes(router: APIRouter, store: FleetStore, kind: Kind, path: str, model: type[Any]) -> None:
    """GET and PUT of one part of the config."""

    def read(id: str) -> dict[str, Any]:
        store.pipelines.get(id)
        found = store.configs.get(id, kind)
        if found is None:
            if kind is Kind.FILTERS:
                return FiltersConfig().to_document()
            raise NotFound(f"this pipeline has no {path} yet", hint=f"send it with PUT …/{path}")
        return shown(kind, found)

    def write(request: Request, id: str, body: dict[str, Any]) -> dict[str, Any]:
        return shown(kind, store.configs.change(id, kind, who(request), lambda old: TO_STORE[kind](body, old)))

    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    name = str(kind)
    read_extra = {"responses": {"200": {"description": "Secrets are masked", "content": content}}}
    write_extra: dict[str, Any] = {"requestBody": {"required": True, "content": content}, **read_extra}
    summary = f"The {name} config, secrets masked"
    router.add_api_route(
        f"/{{id}}/{path}", read, methods=["GET"], summary=summary, name=f"get_{name}", openapi_extra=read_extra
    )
    summary = f"Replace the {name} config; secrets that are masked or left out are kept for the same server and user"
    router.add_api_route(
        f"/{{id}}/{path}", write, methods=["PUT"], summary=summary, name=f"put_{name}", openapi_extra=write_extra
    )


def _shown(pipeline: Pipeline) -> PipelineShown:
    return PipelineShown(**pipeline._asdict())


def _state(pipeline: Pipeline) -> State:
    return State(desired=pipeline.desired, replicas=pipeline.replicas)
