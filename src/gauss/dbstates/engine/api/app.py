"""The REST interface of the engine."""

from __future__ import annotations

import hmac
import logging
import time
from importlib.metadata import version

from fastapi import FastAPI

from gauss.dbstates.engine.api import admin, instances, jobs, states
from gauss.dbstates.engine.api.openapi import EngineApi
from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.http import errors
from gauss.http.body import App, BodyReceiver, Receive, Scope, Send, header, too_large
from gauss.http.errors import TooLarge, Unauthorized, reply
from gauss.model.errors import GaussError, Unavailable

OPEN_PATHS = frozenset({"/v1/health"})
"""Paths without a token."""
log = logging.getLogger("gauss.dbstates.http")


def create_app(engine: DatabaseEngine, token: str) -> FastAPI:
    """The application of one engine."""
    app = EngineApi(
        title="Gauss database states", version=version("gauss"), docs_url=None, redoc_url=None, open_paths=OPEN_PATHS
    )
    errors.install(app)
    app.add_middleware(TokenGate, engine=engine, token=token)
    for module in (jobs, states, instances, admin):
        app.include_router(module.routes(engine))
    return app


class TokenGate:
    """Refuses requests without the token, with a too large body, or to an engine that is ending."""

    def __init__(self, app: App, engine: DatabaseEngine, token: str) -> None:
        self._app, self._engine, self._token = app, engine, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._engine.used = started = time.monotonic()
        body = BodyReceiver(scope, receive, send)
        refused = self._refusal(scope)
        if refused is None and body.is_declared_too_large():
            refused = TooLarge(too_large(scope))
        try:
            await (self._app if refused is None else reply(refused))(scope, body.receive, body.send)
        finally:
            self._engine.used = time.monotonic()
            log.info("%s %s %.1f ms", scope["method"], scope["path"], (time.monotonic() - started) * 1000)

    def _refusal(self, scope: Scope) -> GaussError | None:
        if scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD"):
            return None
        scheme, _, given = header(scope, b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
            return Unauthorized(
                "invalid token" if given else "missing token",
                hint="send Authorization: Bearer TOKEN; it is authToken in dbstates/engine.json",
            )
        return Unavailable("the engine is ending", hint="run the command again") if self._engine.ended else None
