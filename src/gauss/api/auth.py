"""Checks who sends a request. Programs send a token as `Authorization: Bearer …`, or as `?token=` of a WebSocket; pages
have the cookie of a session, which only their own origin may use."""

from __future__ import annotations

import hmac
import re
from enum import IntEnum
from urllib.parse import parse_qs

from gauss.api.cookies import READING, SESSION_PATH, cookie_of, cross_site, foreign_origin
from gauss.http.body import Scope, header
from gauss.http.errors import Forbidden, Unauthorized
from gauss.model.errors import GaussError
from gauss.stream.control.tokens import Tokens, session_role

OPEN = frozenset(
    {("GET", "/livez"), ("HEAD", "/livez"), ("GET", "/readyz"), ("HEAD", "/readyz"), ("POST", SESSION_PATH)}
)
"""Requests without a token: probes, which only report whether the run is up, and the sign-in itself."""
HOW = "send Authorization: Bearer TOKEN; the token is in full.token, or read.token for reading, in the data directory"
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
        return foreign_origin(scope, HOW)
    given = _given(scope)
    found = _access(given, tokens)
    if found is Access.NONE and not given and (role := session_role(cookie_of(scope), tokens)):
        if (foreign := cross_site(scope, HOW)) is not None:
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
    return method in READING or (method == "POST" and _READING_POSTS.fullmatch(path) is not None)


def _given(scope: Scope) -> bytes:
    """The token of a request."""
    scheme, _, value = header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1")
    if scope["type"] == "websocket":
        found: str = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return found.encode("utf-8", "replace")
    return value.strip().encode("latin-1")  # another scheme is never valid, whatever cookie comes with it


def access_of(given: str, tokens: Tokens) -> Access:
    """What a token grants."""
    return _access(given.encode("utf-8", "replace"), tokens)


def _access(given: bytes, tokens: Tokens) -> Access:
    """Compares both tokens in constant time."""
    full = hmac.compare_digest(given, tokens.full.encode())
    read = hmac.compare_digest(given, tokens.read.encode())
    return Access.FULL if full else Access.READ if read else Access.NONE
