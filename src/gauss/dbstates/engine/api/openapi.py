"""The OpenAPI description, completed by the token and the errors."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gauss.http.errors import ERROR_SHAPE

STATUSES = {
    401: "missing or invalid token",
    404: "no such job, state, instance or setting",
    408: "the body was sent too slowly",
    413: "the body is too large",
    422: "a parameter, a setting or a script is wrong",
    500: "a failure of the engine",
    503: "the engine is ending, or the disk is full; retry",
}


class EngineApi(FastAPI):
    """FastAPI with a complete OpenAPI description."""

    def __init__(self, *, open_paths: frozenset[str], **given: Any) -> None:
        super().__init__(**given)
        self._open_paths = open_paths

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = self._document()
        return self.openapi_schema

    def _document(self) -> dict[str, Any]:
        found = get_openapi(title=self.title, version=self.version, routes=self.routes)
        components = found.setdefault("components", {})
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        schemas = components.get("schemas", {})
        components["schemas"] = {name: each for name, each in schemas.items() if "ValidationError" not in name}
        content = {"application/json": {"schema": ERROR_SHAPE}}
        for path, methods in found["paths"].items():
            for method, operation in methods.items():
                responses = operation["responses"]
                responses.pop("422", None)
                if path in self._open_paths:
                    operation["security"] = []
                    continue
                operation["security"] = [{"bearer": []}]
                codes = [401, 422, 500, 503, *((404,) if "{" in path or "config" in path else ())]
                codes += (408, 413) if method in ("post", "patch") else ()
                for code in sorted(codes):
                    responses[str(code)] = {"description": STATUSES[code], "content": content}
        return found
