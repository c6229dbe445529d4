"""The run's token: `Authorization: Bearer …`, or `?token=` where a header can't be set (WebSocket in a browser)."""

from __future__ import annotations

import hmac

from starlette.requests import HTTPConnection

from gauss.api.errors import Unauthorized


def check(connection: HTTPConnection, token: str) -> None:
    """Raises Unauthorized unless the request carries the token."""
    scheme, _, given = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        given = connection.query_params.get("token", "") if connection.scope["type"] == "websocket" else ""
    if not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise Unauthorized(
            "the request has no valid token" if given else "the request has no token",
            hint="send Authorization: Bearer TOKEN; the token stands in engine.json in the data directory",
        )
