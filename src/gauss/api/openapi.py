"""The OpenAPI description, completed by tokens, WebSockets and errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import WebSocketRoute

from gauss.api.auth import OPEN, is_reading
from gauss.api.cookies import SESSION_PATH
from gauss.http.errors import ERROR_SHAPE

STATUSES = {
    401: "missing or invalid token",
    403: "the token is read-only",
    404: "no such topic, processor, reader, sync or record",
    408: "the body was sent too slowly",
    409: "the call violates the delivery protocol, or the sync is running",
    413: "the body is too large",
    422: "invalid parameter",
    503: "the engine is unavailable or the disk is full; retry",
}
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "full.token or read.token of the data directory"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "gauss_PORT",
        "description": "of a browser that has signed in",
    },
    "query": {"type": "apiKey", "in": "query", "name": "token", "description": "for a WebSocket"},
}
_ALWAYS = (401, 422, 503)
_BODY = (408, 413)


class Api(FastAPI):
    """FastAPI with a complete OpenAPI description."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.sockets: list[WebSocketRoute] = []

    def include_router(self, router: APIRouter, **given: Any) -> None:
        """The description, with WebSocket routes, which FastAPI omits."""
        super().include_router(router, **given)
        self.sockets += [route for route in router.routes if isinstance(route, WebSocketRoute)]

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _document(self)
        return self.openapi_schema


def _document(app: Api) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    paths: dict[str, Any] = found["paths"]
    for route in app.sockets:
        paths.setdefault(route.path, {}).setdefault("get", _socket_operation(route))["responses"]["101"] = {
            "description": f"WebSocket: {_summary(route)}"
        }
    components = found.setdefault("components", {})
    components["securitySchemes"] = _SCHEMES
    components["schemas"] = {
        name: shape for name, shape in components.get("schemas", {}).items() if "ValidationError" not in name
    }
    for path, methods in paths.items():
        for method, operation in methods.items():
            _complete(path, method, operation)
    return found


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Adds token and errors to an operation."""
    responses = operation["responses"]
    if (method.upper(), path) in OPEN or operation.get("security") == []:
        operation["security"] = []
        responses.pop("422", None)
        if path == SESSION_PATH:
            content = {"application/json": {"schema": ERROR_SHAPE}}
            responses["401"] = {"description": "unknown, used or expired", "content": content}
        return
    token = operation.setdefault("x-token", "read" if is_reading(method.upper(), path) else "full")
    reads = token in ("read", "viewer")
    operation["security"] = [{"bearer": []}, {"session": []}]
    if "101" in responses:
        operation["security"].append({"query": []})
    codes = [*_ALWAYS, *(() if reads else (403, 409)), *(_BODY if method in ("post", "put", "patch") else ())]
    if "{" in path or "/api/" in path:
        codes.append(404)
    for code in sorted(codes):
        content = {"application/json": {"schema": ERROR_SHAPE}}
        responses[str(code)] = {"description": STATUSES[code], "content": content}


def _summary(route: WebSocketRoute) -> str:
    return " ".join((route.endpoint.__doc__ or "").split())


def _socket_operation(route: WebSocketRoute) -> dict[str, Any]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return {
        "summary": _summary(route),
        "tags": ["WebSockets"],
        "operationId": f"{route.name}_socket",
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names],
        "responses": {},
    }


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation."""

    name: str
    where: str
    type: str
    required: bool
    meaning: str


@dataclass(frozen=True)
class Operation:
    """One method of a path."""

    method: str
    path: str
    summary: str
    tag: str
    token: str
    """The required token: `read`, `full`, or empty."""
    socket: str
    """Summary of the WebSocket; empty if there is none."""
    parameters: tuple[Parameter, ...]
    body: str
    """Media type of the body, or empty."""


def operations(document: dict[str, Any]) -> list[Operation]:
    """The operations of a description, in order."""
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            socket = operation["responses"].get("101", {}).get("description", "").removeprefix("WebSocket: ")
            only_socket = socket and not any(code.startswith("2") for code in operation["responses"])
            found.append(
                Operation(
                    method="WS" if only_socket else method.upper(),
                    path=path,
                    summary=operation["summary"],
                    tag=operation["tags"][0],
                    token=operation.get("x-token", ""),
                    socket="" if only_socket else socket,
                    parameters=tuple(_parameters(document, operation)),
                    body=next(iter(operation.get("requestBody", {}).get("content", {})), ""),
                )
            )
    return found


def _parameters(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[Parameter]:
    for given in operation.get("parameters", []):
        yield Parameter(
            given["name"],
            given["in"],
            _type(given["schema"]),
            given.get("required", False),
            given.get("description", given["schema"].get("description", "")),
        )
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from _fields(document, content.get("schema", {}))


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> Iterator[Parameter]:
    named = next((part["$ref"] for part in [schema, *schema.get("anyOf", [])] if "$ref" in part), None)
    if named is not None:
        schema = document["components"]["schemas"][named.rpartition("/")[2]]
    for name, field in schema.get("properties", {}).items():
        required = name in schema.get("required", [])
        yield Parameter(name, "body", _type(field), required, field.get("description", ""))


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
