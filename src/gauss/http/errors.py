"""One error shape for every failure of the API: `{"error": {code, message, hint, retryable}}`."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from gauss.model.errors import (
    Collected,
    ConfigError,
    DiskFull,
    Fenced,
    FrameError,
    GaussError,
    NotFound,
    PluginError,
    ProtocolError,
    Rejected,
    Unavailable,
)

log = logging.getLogger("gauss.http")


ERROR_SHAPE = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint", "retryable"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": "string"},
                "retryable": {"type": "boolean"},
            },
        }
    },
}
"""The JSON of every error, for OpenAPI."""


class Unauthorized(GaussError):
    """A request without a valid token."""

    code = "unauthorized"


class Forbidden(GaussError):
    """A request that its token does not permit."""

    code = "forbidden"


class TooLarge(GaussError):
    """A request whose body is too large."""

    code = "too_large"


_STATUS: list[tuple[type[GaussError], int]] = [
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooLarge, 413),
    (NotFound, 404),
    (Fenced, 409),
    (ProtocolError, 409),
    (Collected, 409),
    (Rejected, 409),
    (ConfigError, 422),
    (FrameError, 422),
    (PluginError, 422),
    (DiskFull, 503),
    (Unavailable, 503),
]
_CODES = {400: "config", 404: "not_found", 405: "not_allowed", 408: "timeout", 413: "too_large"}


def status_of(error: GaussError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def reply(error: GaussError, status: int | None = None) -> JSONResponse:
    found = status_of(error) if status is None else status
    headers = {"WWW-Authenticate": "Bearer"} if found == 401 else {}
    return JSONResponse({"error": error.to_dict()}, status_code=found, headers=headers)


def install(app: FastAPI) -> None:
    """Installs the error handlers."""

    @app.exception_handler(GaussError)
    def _gauss(_: Request, error: GaussError) -> JSONResponse:
        return reply(error)

    @app.exception_handler(RequestValidationError)
    def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()
        faults = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in found]
        hint = "see /docs for the parameters"
        if "json" not in request.headers.get("content-type", "") and any(fault["loc"][0] == "body" for fault in found):
            hint = "send the body as JSON, with the header Content-Type: application/json"  # curl -d says otherwise
        return reply(ConfigError("; ".join(faults), hint=hint))

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> JSONResponse:
        hint = "see /docs for the paths" if error.status_code in (404, 405) else "see /docs for the parameters"
        found = GaussError(f"{request.method} {request.url.path}: {error.detail}", hint=hint)
        found.code = _CODES.get(error.status_code, "http")
        return reply(found, error.status_code)

    @app.exception_handler(Exception)
    def _unexpected(request: Request, error: Exception) -> JSONResponse:
        log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return reply(
            GaussError(f"unexpected: {type(error).__name__}: {error}", hint="see control.log in the data directory")
        )
