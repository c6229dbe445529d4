"""Changes of a table that tasks use for lookups."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa


def events(*given: tuple[str, dict[str, Any] | None]) -> pa.RecordBatch:
    """Upserts of rows by key; `None` deletes a key."""
    data = [json.dumps(row or {}).encode() for _, row in given]
    columns = {"key": [key for key, _ in given], "deleted": [row is None for _, row in given], "data": data}
    return pa.RecordBatch.from_pydict(
        columns, schema=pa.schema([("key", pa.string()), ("deleted", pa.bool_()), ("data", pa.binary())])
    )
