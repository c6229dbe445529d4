"""The FastAPI application of a run: gate, routes, error handling, OpenAPI."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from fastapi import FastAPI

from gauss.api import (
    auth,
    cursors,
    front,
    latest,
    metrics,
    operate,
    pipeline_file,
    processes,
    scans,
    sessions,
    syncs,
    table_topics,
    topics,
    watch,
)
from gauss.api.databases import routes as databases
from gauss.api.databases.source import run_databases
from gauss.api.gate import Gate
from gauss.api.openapi import Api
from gauss.connect.schedule import SyncSchedule
from gauss.http import errors
from gauss.http.body import App, Scope
from gauss.model.errors import GaussError
from gauss.stream.control.run import Running


def create_app(running: Running, schedule: SyncSchedule, pages: Callable[[App], App] | None = None) -> FastAPI:
    """Creates the application for one run and its syncs. `pages` serves the requests for pages, behind the gate."""
    # The bundled documentation pages would load scripts from the network.
    app = Api(title="Gauss", version=version("gauss"), docs_url=None, redoc_url=None)
    errors.install(app)
    app.state.running = running

    async def refusal(scope: Scope) -> GaussError | None:
        return auth.refusal(scope, running.tokens)

    if pages is not None:
        app.add_middleware(pages)
    app.add_middleware(Gate, refusal=refusal)
    app.include_router(front.routes(running, app))
    for module in (topics, latest, table_topics, scans, cursors, operate, watch, processes, pipeline_file, sessions):
        app.include_router(module.routes(running))
    app.include_router(metrics.routes(running, schedule))
    app.include_router(syncs.routes(running, schedule))
    app.include_router(databases.routes(lambda: run_databases(running)))
    return app
