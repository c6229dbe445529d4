"""The session of a browser: a cookie that scripts can't read and that only pages of its own origin may use."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict

from gauss.http.body import Scope, header
from gauss.http.errors import Forbidden
from gauss.http.sign_in import SESSION_SECONDS
from gauss.model.errors import ConfigError, GaussError

SESSION_PATH = "/api/session"
READING = frozenset({"GET", "HEAD"})


class SignIn(BaseModel):
    """A one-time code or a token."""

    model_config = ConfigDict(extra="forbid")

    code: str | None = None
    token: str | None = None

    def check(self) -> None:
        if (self.code is None) == (self.token is None):
            raise ConfigError("expected either a code or a token", hint='send {"code": "…"} or {"token": "…"}')


def set_session(request: Request, response: Response, value: str) -> None:
    response.set_cookie(
        cookie_name(request.scope),
        value,
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def end_session(request: Request, response: Response) -> None:
    response.delete_cookie(cookie_name(request.scope), httponly=True, samesite="strict")


def cookie_name(scope: Scope) -> str:
    """The name of the session cookie. Cookies do not tell ports apart, and several runs may share a host."""
    server = scope.get("server")
    return f"gauss_{server[1] if server else 0}"


def cookie_of(scope: Scope) -> str:
    """The cookie of a session; empty if there is none."""
    try:
        found = SimpleCookie(header(scope, b"cookie")).get(cookie_name(scope))
    except CookieError:
        return ""
    return found.value if found is not None else ""


def foreign_origin(scope: Scope, hint: str) -> GaussError | None:
    """The error for a request that a page of another origin has sent, or `None`."""
    origin, host = header(scope, b"origin"), header(scope, b"host")
    if origin and origin.partition("://")[2] != host:
        return Forbidden(f"pages of {origin[:200]} may not use this API", hint=hint)
    return None


def cross_site(scope: Scope, hint: str) -> GaussError | None:
    """The error for a request with a cookie that a page of another origin has caused, or `None`. Pages on other ports
    of this host count as the same site, so the cookie alone proves nothing."""
    if (foreign := foreign_origin(scope, hint)) is not None:
        return foreign
    site = header(scope, b"sec-fetch-site")
    opened = header(scope, b"sec-fetch-mode") == "navigate" and header(scope, b"sec-fetch-dest") == "document"
    reading = scope["type"] == "http" and scope["method"] in READING
    if site in ("", "same-origin", "none") or (opened and reading):
        if reading or header(scope, b"origin"):
            return None
        return Forbidden("a change with a session needs the header Origin, which browsers send", hint=hint)
    return Forbidden("pages of other origins may not use this session", hint=hint)
