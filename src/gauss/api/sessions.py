"""Sessions of browsers over HTTP: opened by a one-time code or a token, kept in a cookie that scripts cannot read."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from gauss.api.auth import Access, access_of
from gauss.api.cookies import SESSION_PATH, SignIn, end_session, set_session
from gauss.http.errors import Unauthorized
from gauss.stream.control.run import Running
from gauss.stream.control.tokens import Role, session


class CodeRequest(BaseModel):
    """The role of the session that a code opens."""

    model_config = ConfigDict(extra="forbid")

    role: Role = "operator"


def routes(running: Running) -> APIRouter:
    router = APIRouter(tags=["sessions"])

    @router.post(SESSION_PATH, summary="Open a session by a one-time code or a token; sets its cookie")
    def sign_in(asked: SignIn, request: Request, response: Response) -> dict[str, Any]:
        role = _role(running, asked)
        set_session(request, response, session(role, running.tokens))
        return {"role": role}

    @router.get(SESSION_PATH, summary="The role of the caller: `viewer` or `operator`")
    def shown(request: Request) -> dict[str, Any]:
        return {"role": "operator" if request.state.access is Access.FULL else "viewer"}

    @router.delete(SESSION_PATH, summary="End the session: removes its cookie")
    def sign_out(request: Request, response: Response) -> dict[str, Any]:
        end_session(request, response)
        return {"role": None}

    @router.post(f"{SESSION_PATH}/codes", summary="A URL that opens the pages signed in, once and within 15 minutes")
    def code(asked: CodeRequest) -> dict[str, Any]:
        return {"url": running.pages_url(asked.role)}

    return router


def _role(running: Running, asked: SignIn) -> Role:
    asked.check()
    if asked.code is not None:
        if (role := running.codes.redeem(asked.code)) is not None:
            return role
        raise Unauthorized(
            "this link was used before, or is older than 15 minutes",
            hint="run gauss open for a new one, or sign in with a token",
        )
    found = access_of(asked.token or "", running.tokens)
    if found is Access.NONE:
        raise Unauthorized("invalid token", hint="it is in full.token or read.token in the data directory")
    return "operator" if found is Access.FULL else "viewer"
