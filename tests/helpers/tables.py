"""Real tables for the tests of storages and topics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Cursor, Step
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.letter import Letter
from gauss.contracts.storage import StorageContext, StorageSpec, TableAppended
from gauss.plugins.storages.memory.table import MemoryTable
from helpers.logs import arrow, framing

Row = dict[str, Any]


def json_format(config: dict[str, Any] | None = None) -> Format:
    spec = registry.spec(FormatSpec, "json")
    return cast(Format, registry.build(spec, spec.validate(config or {})))


def table_context(format_: Format | None = None) -> StorageContext:
    return StorageContext(
        "t", Path(), Path(), lambda _: 7, lambda _: True, framing, format=lambda _: format_ or json_format()
    )


def open_table(format_: Format | None = None, **config: Any) -> MemoryTable:
    """A table of JSON records keyed by `k`; `gone = true` removes a key."""
    spec = registry.spec(StorageSpec, "memory")
    given = {"mode": "table", "format": "json", "key_field": "k", "delete_when": ".gone == true", **config}
    return cast(MemoryTable, registry.build(spec, spec.validate(given), table_context(format_)))


def watermark(table: MemoryTable) -> int:
    """The lowest version that a cursor holds; the current version if none is open."""
    return min((cursor.hold for cursor in table._cursors.values()), default=table.end)


def record(key: str | int, value: int = 0, *, gone: bool = False) -> bytes:
    return json.dumps({"k": key, "v": value, **({"gone": True} if gone else {})}).encode()


def stage(table: MemoryTable, chunk: Chunk) -> tuple[TableAppended, list[Letter]]:
    """Appends records without making them visible."""
    keyed, letters = table.fit(chunk)
    return table.append(keyed) if keyed is not None else TableAppended(0), letters


def upsert(table: MemoryTable, *records: bytes, ts_ms: int | Sequence[int] = 1) -> tuple[TableAppended, list[Letter]]:
    """Appends records and makes them visible."""
    done = stage(table, arrow(*records, ts_ms=ts_ms))
    table.reveal()
    return done


def rows(cursor: Cursor, limit: int = 1000, max_bytes: int = 1 << 20) -> list[Row]:
    """All rows that a cursor returns until it has none."""
    found: list[Row] = []
    while (code := cursor.next(Step(limit, max_bytes))) is Code.OK:
        batch = cursor.read()[1]
        assert isinstance(batch, pa.RecordBatch)
        assert 0 < batch.num_rows <= limit
        found += batch.to_pylist()
    assert code is Code.INVALID, code
    return found
