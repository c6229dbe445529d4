"""Sessions of browsers: opened by a one-time code or a token, ended when that token is revoked."""

from __future__ import annotations

import base64
import binascii
import time
from typing import Any, Literal, NamedTuple

from fastapi import APIRouter, Request, Response

from gauss.api.cookies import SESSION_PATH, SignIn, end_session, set_session
from gauss.api.fleet.models import Body
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role, Token
from gauss.http.errors import Forbidden, Unauthorized
from gauss.http.sign_in import SESSION_SECONDS, SignInCodes
from gauss.model.errors import StorageError

_PLACE = "session"


class CodeRequest(Body):
    """The role of the session that a code opens, at most that of the caller."""

    role: Literal["viewer", "operator", "admin"] = "operator"


class Grant(NamedTuple):
    """What a session allows: what its token does, up to a role."""

    token_id: str
    role: Role


class Sessions:
    """The sessions of a fleet. They are kept in cookies alone, sealed with the key of the store, so that every server
    of the fleet knows them."""

    def __init__(self, store: FleetStore) -> None:
        self._store = store
        self._codes: SignInCodes[Grant] = SignInCodes()

    def link(self, url: str, token_id: str, role: Role) -> str:
        """A URL that opens the pages signed in, once. The code is in its fragment: browsers do not send that."""
        return f"{url}/#{self._codes.issue(Grant(token_id, role))}"

    def grant(self, asked: SignIn) -> Grant:
        """What a code or a token allows. Raises Unauthorized."""
        asked.check()
        if asked.code is not None:
            found = self._codes.redeem(asked.code)
            if found is None or self._store.tokens.get(found.token_id) is None:
                raise Unauthorized(
                    "this link was used before, or is older than 15 minutes",
                    hint="start gauss serve again for a new one, ask a colleague for one, or sign in with a token",
                )
            return found
        token = self._store.tokens.find(asked.token or "")
        if token is None:
            raise Unauthorized("invalid token", hint="the first one is in serve.json in the data directory")
        return Grant(token.id, token.role)

    def cookie(self, grant: Grant) -> str:
        until = str(int(time.time()) + SESSION_SECONDS)
        plain = {"token": grant.token_id, "role": grant.role.title, "until": until}
        return base64.urlsafe_b64encode(self._store.seal.close(plain, _PLACE) or b"").decode().rstrip("=")

    def token(self, cookie: str) -> Token | None:
        """The token of a session with the role of the session; None if it has ended or was never opened."""
        try:
            sealed = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
            plain = self._store.seal.open(sealed, _PLACE)
        except (StorageError, binascii.Error, ValueError):
            return None
        if int(plain["until"]) < time.time() or (found := self._store.tokens.get(plain["token"])) is None:
            return None
        return found._replace(role=min(found.role, Role[plain["role"].upper()]))


def routes(sessions: Sessions) -> APIRouter:
    router = APIRouter(tags=["sessions"])

    @router.post(SESSION_PATH, summary="Open a session by a one-time code or a token; sets its cookie")
    def sign_in(asked: SignIn, request: Request, response: Response) -> dict[str, Any]:
        grant = sessions.grant(asked)
        set_session(request, response, sessions.cookie(grant))
        return {"role": grant.role.title}

    @router.get(SESSION_PATH, summary="The role of the caller: `viewer`, `operator` or `admin`")
    def shown(request: Request) -> dict[str, Any]:
        return {"role": _caller(request).role.title, "name": _caller(request).name}

    @router.delete(SESSION_PATH, summary="End the session: removes its cookie")
    def sign_out(request: Request, response: Response) -> dict[str, Any]:
        end_session(request, response)
        return {"role": None}

    @router.post(f"{SESSION_PATH}/codes", summary="A URL that opens the pages signed in, once and within 15 minutes")
    def code(asked: CodeRequest, request: Request) -> dict[str, Any]:
        caller, role = _caller(request), Role[asked.role.upper()]
        if role > caller.role:
            raise Forbidden(
                f"the role {caller.role.title} can't give away the role {role.title}", hint="ask for a lower one"
            )
        return {"url": sessions.link(str(request.base_url).rstrip("/"), caller.id, role)}

    return router


def _caller(request: Request) -> Token:
    found: Token = request.state.token
    return found
