"""Lists as one JSON document, or as NDJSON if the client accepts that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

NDJSON = "application/x-ndjson"
LISTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the list: one document, or a line per item with Accept: application/x-ndjson",
        "content": {"application/json": {"schema": {"type": "object"}}, NDJSON: {"schema": {"type": "string"}}},
    }
}


def listing(request: Request, name: str, rows: Sequence[dict[str, Any]]) -> Response:
    if NDJSON in request.headers.get("accept", ""):
        return Response("".join(json.dumps(row) + "\n" for row in rows), media_type=NDJSON)
    return JSONResponse({name: list(rows)})
