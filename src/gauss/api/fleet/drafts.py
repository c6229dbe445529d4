"""What configs would do before they are saved: rows of a mapping, what ClickHouse has, how a table would change."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from gauss.api.fleet.checking import as_json, preview_shown, start_of, table_validation, topic_validation
from gauss.api.fleet.models import Body, PreviewShown, TableValidation, TopicValidation, Validation
from gauss.fleet import checks
from gauss.fleet.checks import Checks, table_of
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.config.filters import MOST_CHARACTERS, RecordFilter
from gauss.fleet.config.kafka import KafkaConfig
from gauss.fleet.config.model import validated
from gauss.fleet.config.stored import clickhouse_of, clickhouse_to_store, kafka_of, kafka_to_store
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.mapping.compile import create_statement
from gauss.fleet.mapping.fixes import ColumnFit, Samples
from gauss.fleet.mapping.preview import PreviewRow, preview
from gauss.fleet.mapping.samples import decode_samples
from gauss.fleet.sampling import Sample
from gauss.fleet.store.configs import Kind
from gauss.fleet.table_trial import try_statement
from gauss.model.errors import GaussError, NotFound

KEPT_SECONDS = 60.0
"""How long samples are kept, so that they stay the same while somebody edits a mapping."""
MOST_KEPT = 16
NO_SERVER = ClickHouseConfig(dsn="http://localhost:8123")
"""Stands for ClickHouse before it is configured: a mapping is compiled without it."""


class DraftQuestion(Body):
    """A mapping that is not saved; without one, the records alone are returned."""

    mapping: dict[str, Any] | None = None
    filter: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    """The expression of a filter that is not saved; empty for none."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100
    start: Annotated[str, Field(alias="from", max_length=100)] = "end"
    """`beginning`, `end`, or a time: ISO 8601, Unix ms, or `-5m`."""
    anew: bool = False
    """Whether the topic is read anew. Else samples of the last minute serve."""


class SampleFault(Body):
    row: int
    """The index of the record in `rows`."""
    detail: str


class ColumnFix(Body):
    """Another type of a column."""

    type: str
    nullable: bool
    encoding: str | None
    fits: int
    """How many of the records fit it."""


class ColumnFault(Body):
    """A column that some of the records do not fit."""

    column: str
    faults: list[SampleFault]
    fixes: list[ColumnFix]


class DraftShown(Body):
    rows: list[PreviewShown]
    """`raw` is the record as JSON if its format is no text."""
    ddl: str
    """The CREATE TABLE statement of the mapping; empty without one."""
    columns: list[ColumnFault]
    filter_error: str
    """Why the filter can't be used; empty if it can, or without one."""


class TopicQuestion(Body):
    kafka: dict[str, Any]
    """A config that is not saved. Masked secrets stand for the saved ones, of the same brokers and user."""


class ServerQuestion(Body):
    clickhouse: dict[str, Any]
    """A config that is not saved. A masked password stands for the saved one, of the same server and user."""


class ServerShown(Validation):
    databases: list[str] = Field(default=[])
    tables: list[str] = Field(default=[])
    """The tables of the database that the config names."""


class TableDraft(ServerQuestion):
    mapping: dict[str, Any]


def routes(store: FleetStore) -> APIRouter:
    router = APIRouter(prefix="/api/pipelines", tags=["checks"])
    asked, kept = Checks(store), _Kept()

    @router.post("/{id}/preview", summary="Records, and the rows that an unsaved mapping makes of them")
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
        return _draft(body, samples, asked.kafka(id), _clickhouse(id))

    @router.post("/{id}/draft/kafka", summary="Whether brokers have a topic, by a config that is not saved")
    def ask(id: str, body: TopicQuestion) -> TopicValidation:
        store.pipelines.get(id)
        return topic_validation(kafka_of(kafka_to_store(body.kafka, store.configs.get(id, Kind.KAFKA))))

    @router.post("/{id}/draft/clickhouse", summary="What a ClickHouse server has, by a config that is not saved")
    def look(id: str, body: ServerQuestion) -> ServerShown:
        config = _given(id, body.clickhouse)
        try:
            databases = checks.databases(config)
            if config.database not in databases:
                message = f'ClickHouse has no database "{config.database}"'
                hint = "create it, or name another"
                return ServerShown(ok=False, message=message, hint=hint, databases=databases)
            tables = checks.tables(config, config.database)
        except GaussError as error:
            return ServerShown(**checks.outcome(error))
        return ServerShown(ok=True, message="ClickHouse answers", databases=databases, tables=tables)

    @router.post("/{id}/draft/table", summary="A table beside a mapping that is not saved; nothing is made or changed")
    def table(id: str, body: TableDraft) -> TableValidation:
        kafka, config, mapping = asked.kafka(id), _given(id, body.clickhouse), validated(Mapping, body.mapping)
        found = table_validation(lambda: table_of(kafka, config, mapping), create=False)
        if not found.ok or found.exists:
            return found
        try:
            try_statement(config, found.ddl)
        except GaussError as error:
            return found.model_copy(update=checks.outcome(error))
        return found

    def _clickhouse(id: str) -> ClickHouseConfig:
        stored = store.configs.get(id, Kind.CLICKHOUSE)
        return NO_SERVER if stored is None else clickhouse_of(stored)

    def _given(id: str, document: dict[str, Any]) -> ClickHouseConfig:
        store.pipelines.get(id)
        return clickhouse_of(clickhouse_to_store(document, store.configs.get(id, Kind.CLICKHOUSE)))

    return router


def _draft(body: DraftQuestion, samples: list[Sample], kafka: KafkaConfig, clickhouse: ClickHouseConfig) -> DraftShown:
    data, times = [each.data for each in samples], [each.ts_ms for each in samples]
    rows, ddl, fits = [PreviewRow(each, None, None) for each in data], "", list[ColumnFit]()
    if body.mapping is not None:
        mapping = validated(Mapping, body.mapping)
        made = table_of(kafka, clickhouse, mapping)
        rows, ddl = preview(made, data, times), create_statement(made)
        if any(each.error is not None for each in rows):
            fits = Samples(data, times, kafka.format, kafka.format_config).fits(mapping)
    judged, error = _judged(body.filter, data, kafka)
    texts = _texts(data, kafka)
    shown = [
        preview_shown(sample, row, keep).model_copy(update=text)
        for sample, row, text, keep in zip(samples, rows, texts, judged, strict=True)
    ]
    return DraftShown(rows=shown, ddl=ddl, columns=[_shown(each) for each in fits], filter_error=error)


def _texts(data: list[bytes | None], kafka: KafkaConfig) -> list[dict[str, str]]:
    """Records of formats that are no text, as JSON where they can be decoded."""
    if kafka.format in ("json", "csv"):
        return [{} for _ in data]
    decoded = decode_samples(data, kafka.format, kafka.format_config)
    return [{} if each.value is None else {"raw": as_json(each.value)} for each in decoded]


def _judged(expression: str, data: list[bytes | None], kafka: KafkaConfig) -> tuple[list[bool | None], str]:
    """What a filter says of each record, and why it can't be used."""
    unknown: list[bool | None] = [None] * len(data)
    if not expression.strip():
        return unknown, ""
    try:
        judged = checks.judge(RecordFilter(expression, kafka.format, kafka.format_config), data)
    except GaussError as error:
        return unknown, error.message
    return [each if isinstance(each, bool) else None for each in judged], ""


def _shown(fit: ColumnFit) -> ColumnFault:
    fixes = [
        ColumnFix(type=each.type, nullable=each.nullable, encoding=each.encoding, fits=fits) for each, fits in fit.fixes
    ]
    faults = [SampleFault(row=row, detail=detail) for row, detail in fit.faults]
    return ColumnFault(column=fit.column, faults=faults, fixes=fixes)


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
