"""Which role a request needs, and whether its token has it. Programs send a token; pages have the cookie of a session,
which only their own origin may use."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from gauss.api.cookies import READING, SESSION_PATH, cookie_of, cross_site, foreign_origin
from gauss.api.fleet.sessions import Sessions
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role
from gauss.http.body import Scope, header
from gauss.http.errors import Forbidden, Unauthorized
from gauss.model.errors import ConfigError, GaussError

PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that only report whether the server is up."""
HOW = "send Authorization: Bearer TOKEN; the first token is in serve.json in the data directory"
_ADMIN = re.compile(r"/api/tokens(/.*)?")
_RUNS_CODE = re.compile(r"/api/(pipelines/[^/]+/file-config|validate/file)/?")
"""A file of Gauss names code and files of the machine that reads it."""
_EVALUATION = re.compile(r"/api/pipelines/[^/]+/(filters-eval|preview)/?")
"""POST requests that only read."""


def needed_role(method: str, path: str) -> Role:
    """The least role that may send a request."""
    if _ADMIN.fullmatch(path):
        return Role.ADMIN
    if path == SESSION_PATH:
        return Role.VIEWER  # everybody may end their own session
    if method not in READING and _RUNS_CODE.fullmatch(path):
        return Role.ADMIN
    return Role.VIEWER if method in READING or _EVALUATION.fullmatch(path) else Role.OPERATOR


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no token: probes and the sign-in."""
    return (path in PROBES and method in READING) or (method, path) == ("POST", SESSION_PATH)


class Access:
    """Checks the heads of requests against the tokens of a store."""

    def __init__(self, store: FleetStore, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    async def refusal(self, scope: Scope) -> GaussError | None:
        """The error for a request or WebSocket handshake that is refused. Notes the token for the route."""
        if scope["type"] == "http" and is_open(scope["method"], scope["path"]):
            return foreign_origin(scope, HOW)
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return ConfigError("a path or parameter contains a NUL character", hint="remove %00")
        text = _given(scope)
        try:
            if text or not (cookie := cookie_of(scope)):
                token = await run_in_threadpool(self._store.tokens.find, text)
            else:
                token = await run_in_threadpool(self._sessions.token, cookie)
        except GaussError as error:
            return error
        if token is None:
            return Unauthorized("invalid token" if text else "missing token", hint=HOW)
        if not text and (foreign := cross_site(scope, HOW)) is not None:
            return foreign
        needed = Role.VIEWER if scope["type"] == "websocket" else needed_role(scope["method"], scope["path"])
        if token.role < needed:
            return Forbidden(
                f"this token has the role {token.role.title}, and the request needs {needed.title}",
                hint="ask an admin of the fleet for another token",
            )
        scope.setdefault("state", {}).update(who=token.name, token=token)
        return None


def who(request: Request) -> str:
    """The name of the token of a request, for the audit log."""
    found: str = request.state.who
    return found


def _given(scope: Scope) -> str:
    """The token of a request; a WebSocket, whose headers a browser can't set, may name it in its URL."""
    given = header(scope, b"authorization")
    scheme, _, value = given.partition(" ")
    if scheme.lower() == "bearer":
        return str(value.strip())
    if scope["type"] == "websocket":
        return str(parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0])
    return str(given)  # another scheme is never valid, whatever cookie comes with it


def describe(document: dict[str, Any]) -> None:
    """Adds the needed role to each operation of an OpenAPI document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if not is_open(method.upper(), path):
                operation["x-token"] = needed_role(method.upper(), path).title
                continue
            operation["security"] = []
            operation.pop("x-token", None)
            if path in PROBES:
                for code in ("401", "422"):
                    operation["responses"].pop(code, None)
