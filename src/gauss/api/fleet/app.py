"""The FastAPI application of `gauss serve`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gauss.api import pages
from gauss.api.databases import routes as databases
from gauss.api.databases.source import DatabaseSource
from gauss.api.fleet import access, checking, drafts, files, history, observing, overview, pipelines, running, sessions
from gauss.api.fleet.overview import FleetFigures
from gauss.api.fleet.sessions import Sessions
from gauss.api.gate import Gate
from gauss.api.openapi import Api
from gauss.fleet.fleet_store import FleetStore
from gauss.http import errors
from gauss.http.body import App


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


def create_fleet_app(
    store: FleetStore,
    signed_in: Sessions | None = None,
    site: Callable[[FleetFigures], Callable[[App], App]] | None = None,
    data_dir: Path | None = None,
) -> FleetApi:
    """Creates the application over a store. `signed_in`: the sessions of browsers, to which the caller makes links.
    `site` serves the requests for pages, behind the gate. `data_dir`: where database states are, if they are shown."""
    app = FleetApi(title="Gauss fleet", version=version("gauss"), docs_url=None, redoc_url=None)
    errors.install(app)
    known, figures = signed_in or Sessions(store), FleetFigures(store)
    if site is not None:
        app.add_middleware(site(figures))
    app.add_middleware(Gate, refusal=access.Access(store, known).refusal, sign_in=pages.FLEET_TOKENS)
    for module in (pipelines, running, checking, drafts, history):
        app.include_router(module.routes(store))
    app.include_router(files.routes())
    app.include_router(observing.routes(store, app))
    app.include_router(overview.routes(figures))
    app.include_router(sessions.routes(known))
    if data_dir is not None:
        shown = DatabaseSource(data_dir, data_dir)
        app.include_router(databases.routes(lambda: shown))
    return app
