"""Checks who sends a request. Programs send a token as `Authorization: Bearer …`, or as `?token=` of a WebSocket; pages
have the cookie of a session, which only their own origin may use."""

from __future__ import annotations

import hmac
import re
from enum import IntEnum
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from gauss.http.body import Scope, header
from gauss.http.errors import Forbidden, Unauthorized
from gauss.model.errors import GaussError
from gauss.stream.control.tokens import Tokens, session_role

SESSION_PATH = "/api/session"
OPEN = frozenset(
    {("GET", "/livez"), ("HEAD", "/livez"), ("GET", "/readyz"), ("HEAD", "/readyz"), ("POST", SESSION_PATH)}
)
"""Requests without a token: probes, which only report whether the run is up, and the sign-in itself."""
HOW = "send Authorization: Bearer TOKEN; the token is in full.token, or read.token for reading, in the data directory"
_READING = frozenset({"GET", "HEAD"})
_READING_POSTS = re.compile(r"/api/topics/[^/]+/cursor/?|/api/dlq/try/?")
"""POST requests that only read: a scan whose program is too long for a URL, a try of a corrected record."""


class Access(IntEnum):
    """The access that a token grants."""

    NONE = 0
    READ = 1
    FULL = 2


def refusal(scope: Scope, tokens: Tokens) -> GaussError | None:
    """The error for a request or WebSocket handshake that is refused, or `None`. Checks only the head."""
    if scope["type"] == "http" and (scope["method"], scope["path"]) in OPEN:
        return foreign_origin(scope)
    given = _given(scope)
    found = _access(given, tokens)
    if found is Access.NONE and not given and (role := session_role(_cookie(scope), tokens)):
        if (foreign := _cross_site(scope)) is not None:
            return foreign
        found = Access.FULL if role == "operator" else Access.READ
    if found is Access.NONE:
        return Unauthorized("invalid token" if given else "missing token", hint=HOW)
    scope.setdefault("state", {})["access"] = found
    if found is Access.FULL or scope["type"] == "websocket" or is_reading(scope["method"], scope["path"]):
        return None
    return Forbidden(
        f"this token is read-only, and {scope['method']} {scope['path']} needs full access",
        hint="use the token in full.token in the data directory",
    )


def is_reading(method: str, path: str) -> bool:
    """Whether a request is read-only. Everybody may end their own session."""
    if path == SESSION_PATH:
        return True
    return method in _READING or (method == "POST" and _READING_POSTS.fullmatch(path) is not None)


def cookie_name(scope: Scope) -> str:
    """The name of the session cookie. Cookies do not tell ports apart, and several runs may share a host."""
    server = scope.get("server")
    return f"gauss_{server[1] if server else 0}"


def foreign_origin(scope: Scope) -> GaussError | None:
    """The error for a request that a page of another origin has sent, or `None`."""
    origin, host = header(scope, b"origin"), header(scope, b"host")
    if origin and origin.partition("://")[2] != host:
        return Forbidden(f"pages of {origin[:200]} may not use this API", hint=HOW)
    return None


def _cross_site(scope: Scope) -> GaussError | None:
    """The error for a request with a cookie that a page of another origin has caused, or `None`. Pages on other ports
    of this host count as the same site, so the cookie alone proves nothing."""
    if (foreign := foreign_origin(scope)) is not None:
        return foreign
    site = header(scope, b"sec-fetch-site")
    opened = header(scope, b"sec-fetch-mode") == "navigate" and header(scope, b"sec-fetch-dest") == "document"
    reading = scope["type"] == "http" and scope["method"] in _READING
    if site in ("", "same-origin", "none") or (opened and reading):
        if reading or header(scope, b"origin"):
            return None
        return Forbidden("a change with a session needs the header Origin, which browsers send", hint=HOW)
    return Forbidden("pages of other origins may not use this session", hint=HOW)


def _given(scope: Scope) -> bytes:
    """The token of a request."""
    scheme, _, value = header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1")
    if scope["type"] == "websocket":
        found: str = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return found.encode("utf-8", "replace")
    return value.strip().encode("latin-1")  # another scheme is never valid, whatever cookie comes with it


def _cookie(scope: Scope) -> str:
    try:
        found = SimpleCookie(header(scope, b"cookie")).get(cookie_name(scope))
    except CookieError:
        return ""
    return found.value if found is not None else ""


def access_of(given: str, tokens: Tokens) -> Access:
    """What a token grants."""
    return _access(given.encode("utf-8", "replace"), tokens)


def _access(given: bytes, tokens: Tokens) -> Access:
    """Compares both tokens in constant time."""
    full = hmac.compare_digest(given, tokens.full.encode())
    read = hmac.compare_digest(given, tokens.read.encode())
    return Access.FULL if full else Access.READ if read else Access.NONE
