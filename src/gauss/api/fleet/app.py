"""The FastAPI application of `gauss serve`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gauss.api.fleet import access, checking, history, observing, pipelines, running
from gauss.api.gate import Gate
from gauss.api.openapi import Api
from gauss.fleet.fleet_store import FleetStore
from gauss.http import errors


class FleetApi(Api):
    """The description has the models of configs and the role that each operation needs."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            access.describe(document)
            models: list[type[BaseModel]] = [model for _, model in pipelines.PATHS.values()]
            _, shapes = models_json_schema(
                [(each, "validation") for each in models], ref_template="#/components/schemas/{model}"
            )
            document["components"].setdefault("schemas", {}).update(shapes["$defs"])
        return self.openapi_schema or {}


def create_fleet_app(store: FleetStore) -> FleetApi:
    """Creates the application over a store."""
    app = FleetApi(title="Gauss fleet", version=version("gauss"), docs_url=None, redoc_url=None)
    errors.install(app)
    app.add_middleware(Gate, refusal=access.Access(store).refusal)
    for module in (pipelines, running, checking, history):
        app.include_router(module.routes(store))
    app.include_router(observing.routes(store, app))
    return app
