"""What pages show live: each pipeline in short with its rates, and the workers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter

from gauss.api.fleet.models import Body, StatusShown
from gauss.api.fleet.statuses import NO_LETTERS, status_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.claims import ClaimShown
from gauss.fleet.status import by_pipeline
from gauss.fleet.store.configs import Kind
from gauss.fleet.store.pipelines import Pipeline

FRESH_SECONDS = 0.9
"""How long a reading serves all who ask, so that many open pages cost as much as one."""
WINDOW_SECONDS = 6.0
"""Rates are averages of this time, since rows arrive in batches."""
POINTS = 60


class PipelineRow(StatusShown):
    """A pipeline in short."""

    id: str
    name: str
    version: int
    replicas: int
    held: int
    """Slots that workers hold."""
    is_file: bool
    """Whether it is a whole file of Gauss."""
    topic: str
    """Empty before it is configured, as the table."""
    table: str
    rate: float
    """Rows per second."""
    bytes_rate: float
    insert_ms: float | None
    """How long a batch took to read and insert, on average; None if there was none."""


class WorkerRow(Body):
    """A worker in short."""

    id: str
    host: str
    mode: str
    live: bool
    slots: int
    max_slots: int | None


class FleetShown(Body):
    """All pipelines by id, and all workers."""

    pipelines: dict[str, PipelineRow]
    workers: list[WorkerRow]


class _Counters(NamedTuple):
    at: float
    rows: int
    bytes: int
    batches: int
    insert_ms: int


class FleetFigures:
    """Reads the figures of a fleet. Usable from several threads."""

    def __init__(self, store: FleetStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read: tuple[float, FleetShown] | None = None
        self._seen: dict[str, deque[_Counters]] = {}
        self._rates: dict[str, deque[float]] = {}
        self._ends: dict[str, tuple[int, str, str]] = {}

    def read(self) -> FleetShown:
        with self._lock:
            now = time.monotonic()
            if self._read is None or now - self._read[0] > FRESH_SECONDS:
                if self._read is None or now - self._read[0] > WINDOW_SECONDS:
                    self._seen.clear()  # nobody has looked meanwhile
                    self._rates.clear()
                self._read = now, self._shown(now)
            return self._read[1]

    def history(self) -> dict[str, list[float]]:
        """Rows per second of each pipeline, the newest last."""
        self.read()
        with self._lock:
            return {key: list(values) for key, values in self._rates.items()}

    def _shown(self, now: float) -> FleetShown:
        store = self._store
        held, claims, workers = by_pipeline(store.leases.assignments()), store.claims.all(), store.workers.list()
        pipelines, letters = store.pipelines.list(), store.letters.totals()
        rows = {}
        for each in pipelines:
            mine, slots = claims.get(each.id, []), held.get(each.id, [])
            found = status_of(each, slots, mine, workers, letters.get(each.id, NO_LETTERS))
            known = {name: getattr(each, name) for name in ("id", "name", "version", "replicas", "is_file")}
            topic, table = self._ends_of(each)
            rates = self._rates_of(each.id, mine, now)
            rows[each.id] = PipelineRow(**found, **known, **rates, held=len(slots), topic=topic, table=table)
        for kept in (self._seen, self._rates, self._ends):
            for gone in kept.keys() - rows.keys():
                del kept[gone]
        taken = [one.worker_id for each in held.values() for one in each]
        shown = [
            WorkerRow(
                id=each.id,
                host=each.host,
                mode=each.mode,
                live=each.live,
                slots=taken.count(each.id),
                max_slots=each.max_slots,
            )
            for each in workers
        ]
        return FleetShown(pipelines=rows, workers=shown)

    def _rates_of(self, pipeline_id: str, claims: Sequence[ClaimShown], now: float) -> dict[str, Any]:
        counters = _Counters(
            now, *(sum(getattr(each, name) for each in claims) for name in ("rows", "bytes", "batches", "insert_ms"))
        )
        seen = self._seen.setdefault(pipeline_id, deque())
        seen.append(counters)
        while seen[0].at < now - WINDOW_SECONDS:
            seen.popleft()
        first = seen[0]
        seconds = max(now - first.at, FRESH_SECONDS)
        batches = counters.batches - first.batches
        rate = max(counters.rows - first.rows, 0) / seconds
        self._rates.setdefault(pipeline_id, deque(maxlen=POINTS)).append(rate)
        return {
            "rate": rate,
            "bytes_rate": max(counters.bytes - first.bytes, 0) / seconds,
            "insert_ms": (counters.insert_ms - first.insert_ms) / batches if batches > 0 else None,
        }

    def _ends_of(self, pipeline: Pipeline) -> tuple[str, str]:
        """The topic and the table, read anew only for a new version."""
        version, topic, table = self._ends.get(pipeline.id, (-1, "", ""))
        if version != pipeline.version:
            kafka = self._store.configs.get(pipeline.id, Kind.KAFKA)
            clickhouse = self._store.configs.get(pipeline.id, Kind.CLICKHOUSE)
            topic = "" if kafka is None else str(kafka.document["topic"])
            table = ""
            if clickhouse is not None:
                name = clickhouse.document["table"] or topic.replace(".", "_")
                table = f"{clickhouse.document['database']}.{name}"
            self._ends[pipeline.id] = pipeline.version, topic, table
        return topic, table


def routes(figures: FleetFigures) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["observing"])

    @router.get("/overview", summary="Each pipeline in short with its rates, and the workers")
    def shown() -> FleetShown:
        return figures.read()

    @router.get("/history", summary="Rows per second of each pipeline in the last minute, as far as somebody looked")
    def history() -> dict[str, dict[str, list[float]]]:
        return {"pipelines": figures.history()}

    return router
