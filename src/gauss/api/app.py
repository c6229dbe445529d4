"""The FastAPI application of a run: gate, routes, error handling, OpenAPI."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from gauss.api import cursors, errors, front, metrics, operate, scans, syncs, topics
from gauss.api.gate import Gate
from gauss.api.openapi import Api
from gauss.connect.schedule import SyncSchedule
from gauss.stream.control.run import Running


def create_app(running: Running, schedule: SyncSchedule) -> FastAPI:
    """Creates the application for one run and its syncs."""
    # The bundled documentation pages would load scripts from the network.
    app = Api(title="Gauss", version=version("gauss"), docs_url=None, redoc_url=None)
    errors.install(app)
    app.state.running = running
    app.add_middleware(Gate, running=running)
    app.include_router(front.routes(running, app))
    for module in (topics, scans, cursors, operate):
        app.include_router(module.routes(running))
    app.include_router(metrics.routes(running, schedule))
    app.include_router(syncs.routes(running, schedule))
    return app
