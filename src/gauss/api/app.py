"""The HTTP API of a run: every request passes the gate, every failure has one shape, OpenAPI at /openapi.json."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from gauss.api import cursors, errors, front, metrics, operate, scans, topics
from gauss.api.gate import Gate
from gauss.api.openapi import Api
from gauss.stream.control.run import Running


def create_app(running: Running) -> FastAPI:
    """All routes over one run."""
    # The bundled documentation pages would load scripts from the network.
    app = Api(title="Gauss", version=version("gauss"), docs_url=None, redoc_url=None)
    errors.install(app)
    app.state.running = running
    app.add_middleware(Gate, running=running)
    app.include_router(front.routes(running, app))
    for module in (topics, scans, cursors, operate, metrics):
        app.include_router(module.routes(running))
    return app
