"""The HTTP API of a run: loopback, bearer token, one error shape, OpenAPI at /openapi.json."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from starlette.requests import HTTPConnection

from gauss.api import auth, cursors, errors, metrics, operate, scans, topics
from gauss.stream.control.run import Running

ERROR_SHAPE = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint", "retryable"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": "string"},
                "retryable": {"type": "boolean"},
            },
        }
    },
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": {"application/json": {"schema": ERROR_SHAPE}}}
    for code, text in {
        401: "no token, or a wrong one",
        404: "no such topic, processor, reader or record",
        409: "the call breaks a rule of delivery",
        422: "a wrong parameter",
        503: "the engine is not up, or the disk is full; try again",
    }.items()
}


def create_app(running: Running) -> FastAPI:
    """All routes over one run."""
    # The bundled documentation pages would load scripts from the network.
    app = FastAPI(title="Gauss", version=version("gauss"), docs_url=None, redoc_url=None)
    errors.install(app)

    def authorised(connection: HTTPConnection) -> None:
        if connection.scope["type"] == "http":  # a WebSocket is judged by its own route, which can say why
            auth.check(connection, running.token)

    guarded = [Depends(authorised)]
    for module in (topics, scans, cursors, operate, metrics):
        app.include_router(module.routes(running), dependencies=guarded, responses=_ERRORS)
    return app
