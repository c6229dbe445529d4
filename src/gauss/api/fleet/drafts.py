"""What a mapping would make of samples before it is saved."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from gauss.api.fleet.checking import preview_shown, start_of
from gauss.api.fleet.models import Body, PreviewShown
from gauss.fleet.checks import Checks, table_of
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.config.model import validated
from gauss.fleet.config.stored import clickhouse_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.mapping.compile import create_statement
from gauss.fleet.mapping.preview import PreviewRow, preview
from gauss.fleet.sampling import Sample
from gauss.fleet.store.configs import Kind
from gauss.model.errors import NotFound

KEPT_SECONDS = 60.0
"""How long samples are kept, so that they stay the same while somebody edits a mapping."""
MOST_KEPT = 16
NO_SERVER = "http://localhost:8123"
"""Stands for ClickHouse before it is configured: a mapping is compiled without it."""


class DraftQuestion(Body):
    """A mapping that is not saved; without one, the records alone are returned."""

    mapping: dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100
    start: Annotated[str, Field(alias="from", max_length=100)] = "end"
    """`beginning`, `end`, or a time: ISO 8601, Unix ms, or `-5m`."""
    anew: bool = False
    """Whether the topic is read anew. Else samples of the last minute serve."""


class DraftShown(Body):
    rows: list[PreviewShown]
    ddl: str
    """The CREATE TABLE statement of the mapping; empty without one."""


def routes(store: FleetStore) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["checks"])
    asked, kept = Checks(store), _Kept()

    @router.post("/pipelines/{id}/preview", summary="Records, and the rows that an unsaved mapping makes of them")
    def preview_draft(id: str, body: DraftQuestion) -> DraftShown:
        stored = store.configs.get(id, Kind.KAFKA)
        if stored is None:
            store.pipelines.get(id)
            raise NotFound("this pipeline has no kafka config yet", hint="save it first")
        key = (id, stored.version, body.limit, body.start)
        samples = None if body.anew else kept.get(key)
        if samples is None:
            samples = asked.samples(id, body.limit, start_of(body.start))
            kept.put(key, samples)
        if body.mapping is None:
            rows = [PreviewRow(each.data, None, None) for each in samples]
            return DraftShown(rows=[preview_shown(*each) for each in zip(samples, rows, strict=True)], ddl="")
        clickhouse = store.configs.get(id, Kind.CLICKHOUSE)
        where = ClickHouseConfig(dsn=NO_SERVER) if clickhouse is None else clickhouse_of(clickhouse)
        table = table_of(asked.kafka(id), where, validated(Mapping, body.mapping))
        rows = preview(table, [each.data for each in samples], [each.ts_ms for each in samples])
        shown = [preview_shown(*each) for each in zip(samples, rows, strict=True)]
        return DraftShown(rows=shown, ddl=create_statement(table))

    return router


class _Kept:
    """Samples of the last minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Any, tuple[float, list[Sample]]] = {}

    def get(self, key: Any) -> list[Sample] | None:
        with self._lock:
            at, samples = self._found.get(key, (float("-inf"), []))
        return samples if time.monotonic() - at < KEPT_SECONDS else None

    def put(self, key: Any, samples: list[Sample]) -> None:
        with self._lock:
            self._found.pop(key, None)
            self._found[key] = (time.monotonic(), samples)
            while len(self._found) > MOST_KEPT:
                del self._found[next(iter(self._found))]
