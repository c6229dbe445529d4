"""Which role a request needs, and whether its token has it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role
from gauss.http.body import Scope, header
from gauss.http.errors import Forbidden, Unauthorized
from gauss.model.errors import ConfigError, GaussError

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths without a token; they only report whether the server is up."""
HOW = "send Authorization: Bearer TOKEN; the first token is in serve.json in the data directory"
_READING = frozenset({"GET", "HEAD"})
_ADMIN = re.compile(r"/api/tokens(/.*)?")
_EVALUATION = re.compile(r"/api/pipelines/[^/]+/filters-eval/?")


def needed_role(method: str, path: str) -> Role:
    """The least role that may send a request."""
    if _ADMIN.fullmatch(path):
        return Role.ADMIN
    return Role.VIEWER if method in _READING or _EVALUATION.fullmatch(path) else Role.OPERATOR


class Access:
    """Checks the heads of requests against the tokens of a store."""

    def __init__(self, store: FleetStore) -> None:
        self._store = store

    async def refusal(self, scope: Scope) -> GaussError | None:
        """The error for a request or WebSocket handshake that is refused. Notes the token for the route."""
        if scope["type"] == "http" and scope["path"] in OPEN_PATHS and scope["method"] in _READING:
            return None
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return ConfigError("a path or parameter contains a NUL character", hint="remove %00")
        text = _given(scope)
        try:
            token = await run_in_threadpool(self._store.tokens.find, text)
        except GaussError as error:
            return error
        if token is None:
            return Unauthorized("invalid token" if text else "missing token", hint=HOW)
        needed = Role.VIEWER if scope["type"] == "websocket" else needed_role(scope["method"], scope["path"])
        if token.role < needed:
            return Forbidden(
                f"this token has the role {token.role.title}, and the request needs {needed.title}",
                hint="ask an admin of the fleet for another token",
            )
        scope.setdefault("state", {})["who"] = token.name
        return None


def who(request: Request) -> str:
    """The name of the token of a request, for the audit log."""
    found: str = request.state.who
    return found


def _given(scope: Scope) -> str:
    """The token of a request. Only a header that pages must set on purpose counts, so that no other site can send a
    request in the name of somebody; a WebSocket, whose headers a browser can't set, may name it in its URL."""
    scheme, _, value = header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return str(value.strip())
    if scope["type"] == "websocket":
        return str(parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0])
    return ""


def describe(document: dict[str, Any]) -> None:
    """Adds the needed role to each operation of an OpenAPI document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path in OPEN_PATHS:
                operation["security"] = []
                operation.pop("x-token", None)
                for code in ("401", "422"):
                    operation["responses"].pop(code, None)
            else:
                operation["x-token"] = needed_role(method.upper(), path).title
