"""Answers to deletions: 200, or 409 if a rule forbids it."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse, Response

from gauss.dbstates.deletion.tree import DeleteResult

_CONTENT = {"application/json": {"schema": {"type": "object", "required": ["outcome", "dry_run", "root"]}}}
DELETED: dict[int | str, dict[str, Any]] = {
    200: {"description": "deleted, or what a dry run found", "content": _CONTENT},
    409: {"description": "blocked: the reasons are in the tree", "content": _CONTENT},
}


def deletion(result: DeleteResult) -> Response:
    blocked = result.outcome == "blocked" and not result.dry_run
    return JSONResponse(result.json(), 409 if blocked else 200)
