"""External tables over HTTP: rows by time, in pages, and as a whole."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pyarrow as pa

from gauss.api.paging import MOST_PAGE_BYTES, ROW_BYTES
from gauss.api.records import objects
from gauss.config.spec import Pipeline
from gauss.contracts.cursor import Program, TimeRange
from gauss.contracts.expression import Select
from gauss.contracts.storage import TopicKind
from gauss.model.errors import ConfigError
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.scan.program.parse import parse
from gauss.stream.control.run import Running

_PLACE = re.compile(r"(-?\d{1,19}):(\d{1,19})")
_encoder = msgspec.json.Encoder(enc_hook=str)


def is_stored(pipeline: Pipeline, topic: str) -> bool:
    """Whether a topic is stored in an external table."""
    found = next((each for each in pipeline.topics if each.name == topic), None)
    return found is not None and found.kind is TopicKind.STORED_TABLE


def asked_rows(start_ms: int | None, stop_ms: int | None, after: str | None) -> Program:
    """Rows of a time range, from the end of the previous page."""
    view = TimeRange(start_ms or 0, stop_ms)
    if after is None:
        return Program(view)
    found = _PLACE.fullmatch(after)
    if found is None:
        raise ConfigError(
            f"after: expected `next` of the previous page (got {after!r})", hint="such as 1769860800000:41"
        )
    inc, offset = found.groups()
    behind = f"._inc > {inc} or (._inc == {inc} and ._offset > {offset})"
    return Program(view, stages=(Select(parse(behind).root),), text=behind)


def rows_shown(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as `{offset, ts_ms, data}`."""
    return [_shown(row) for row in objects(batch)]


def row_lines(batch: pa.RecordBatch) -> bytes:
    """Rows as NDJSON of `{offset, ts_ms, data}`."""
    return _encoder.encode_lines(rows_shown(batch))


def page(running: Running, topic: str, program: Program, limit: int) -> dict[str, Any]:
    """Up to `limit` rows within the page size, and the position of the next page. Rows of one record are never
    split."""
    tail = running.client().tail(topic, program, full=True)
    try:
        found: list[dict[str, Any]] = []
        size = 0
        for batch in tail:
            row_bytes = batch.nbytes // max(batch.num_rows, 1) + ROW_BYTES
            for row in objects(batch):
                is_full = len(found) >= limit or (found and size + row_bytes > MOST_PAGE_BYTES)
                if is_full and (_mark(row) is None or _mark(row) != _mark(found[-1])):
                    return {"records": [_shown(each) for each in found], "next": _next(found[-1], topic)}
                found.append(row)
                size += row_bytes
    finally:
        tail.cancel()
    return {"records": [_shown(each) for each in found], "next": None}


def _mark(row: dict[str, Any]) -> tuple[int, int] | None:
    return (row[INC_COLUMN], row[OFFSET_COLUMN]) if row.get(OFFSET_COLUMN) is not None else None


def _next(row: dict[str, Any], topic: str) -> str:
    mark = _mark(row)
    if mark is None:
        raise ConfigError(
            f'rows of topic "{topic}" have no _inc and _offset, so they cannot be paged',
            hint="request all rows with Accept: application/x-ndjson, or fewer with from, to",
        )
    return f"{mark[0]}:{mark[1]}"


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    data = {name: value for name, value in row.items() if name not in (INC_COLUMN, OFFSET_COLUMN)}
    time = row.get("ts_ms")
    return {"offset": row.get(OFFSET_COLUMN), "ts_ms": time if isinstance(time, int) else None, "data": data}


def keyed_entries(batch: pa.RecordBatch, key: tuple[str, ...]) -> bytes:
    """Rows as the inside of one JSON object: key → row. A key of several columns is their values as a JSON list."""
    rows = [_shown(row)["data"] for row in objects(batch)]
    return b",\n".join(_encoder.encode(_key(row, key)) + b": " + _encoder.encode(row) for row in rows)


def _key(row: dict[str, Any], key: tuple[str, ...]) -> str:
    if len(key) == 1:
        value = row[key[0]]
        return value if isinstance(value, str) else _encoder.encode(value).decode()
    return _encoder.encode([row[name] for name in key]).decode()


def listed(batch: pa.RecordBatch) -> bytes:
    """Rows as the inside of one JSON array."""
    return b",\n".join(_encoder.encode(_shown(row)["data"]) for row in objects(batch))
