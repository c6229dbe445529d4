"""Checks the token of a request. The token is taken from `Authorization: Bearer …`, from the password of `Basic` (for
pages in a browser), or from `?token=` of a WebSocket, whose headers a browser can't set."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import MutableMapping
from enum import IntEnum
from typing import Any
from urllib.parse import parse_qs

from gauss.api.errors import Forbidden, Unauthorized
from gauss.model.errors import GaussError
from gauss.stream.control.tokens import Tokens

Scope = MutableMapping[str, Any]

OPEN_PATHS = frozenset({"/livez", "/readyz"})
"""Paths without a token; they only report whether the run is up."""
HOW = "send Authorization: Bearer TOKEN; the token is in full.token, or read.token for reading, in the data directory"
_READING = frozenset({"GET", "HEAD"})
_READING_POSTS = re.compile(r"/api/topics/[^/]+/cursor/?")
"""POST requests that only read: a scan whose program is too long for a URL."""


class Access(IntEnum):
    """The access that a token grants."""

    NONE = 0
    READ = 1
    FULL = 2


def refusal(scope: Scope, tokens: Tokens) -> GaussError | None:
    """The error for a request or WebSocket handshake that is refused, or `None`. Checks only the head."""
    if scope["type"] == "http" and scope["path"] in OPEN_PATHS and scope["method"] in _READING:
        return None
    given, browser = _given(scope)
    found = _access(given, tokens)
    if found is Access.NONE:
        return Unauthorized("invalid token" if given else "missing token", hint=HOW)
    if scope["type"] == "websocket" or is_reading(scope["method"], scope["path"]):
        return None
    if browser:
        # A browser sends a stored password for requests of any page, so Basic never allows changes.
        return Forbidden("requests that change something need Authorization: Bearer", hint=HOW)
    if found is Access.READ:
        return Forbidden(
            f"this token is read-only, and {scope['method']} {scope['path']} needs full access",
            hint="use the token in full.token in the data directory",
        )
    return None


def header(scope: Scope, name: bytes) -> str:
    """The first header with a name, or empty."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_reading(method: str, path: str) -> bool:
    """Whether a request is read-only."""
    return method in _READING or (method == "POST" and _READING_POSTS.fullmatch(path) is not None)


def _given(scope: Scope) -> tuple[bytes, bool]:
    """The token of a request, and whether a browser may have added it automatically."""
    scheme, _, value = header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1"), False
    if scope["type"] == "websocket":
        found = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return found.encode("utf-8", "replace"), False
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2], True
        except (binascii.Error, ValueError):
            return b"", True
    return b"", False


def _access(given: bytes, tokens: Tokens) -> Access:
    """Compares both tokens in constant time."""
    full = hmac.compare_digest(given, tokens.full.encode())
    read = hmac.compare_digest(given, tokens.read.encode())
    return Access.FULL if full else Access.READ if read else Access.NONE
