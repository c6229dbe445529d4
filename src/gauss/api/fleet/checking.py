"""Routes that ask the brokers and ClickHouse: validation, databases, samples, previews, filters."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.encoders import jsonable_encoder
from pydantic import ValidationError

from gauss.api.fleet.models import (
    FilterAnswer,
    FilterQuestion,
    InferredColumn,
    LiveColumnShown,
    PreviewFault,
    PreviewShown,
    TableDifference,
    TableQuestion,
    TableValidation,
    TopicValidation,
    Validation,
)
from gauss.fleet import checks
from gauss.fleet.checks import Checks
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.config.kafka import KafkaConfig
from gauss.fleet.config.model import faults, validated
from gauss.fleet.config.stored import kafka_of, kafka_to_store
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.column import Mapping, MappingColumn
from gauss.fleet.mapping.preview import PreviewRow
from gauss.fleet.sampling import Sample
from gauss.model.errors import ConfigError, GaussError, Unavailable
from gauss.model.units import moment, moment_ms
from gauss.tables.mapped_table import MappedTable

SampleLimit = Annotated[int, Query(ge=1, le=1_000, description="maximum number of records")]
From = Annotated[str, Query(alias="from", description="beginning, end, or a time: ISO 8601, Unix ms, or -5m")]
CONNECT_SECONDS = 5.0
MOST_TOLD = 5
"""Brokers whose faults are told."""
Text = Annotated[str, Query(min_length=1, max_length=200)]


def routes(store: FleetStore) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["checks"])
    asked = Checks(store)

    @router.post("/pipelines/{id}/validate/kafka", summary="Whether the brokers answer and the topic exists")
    def validate_kafka(id: str) -> TopicValidation:
        return topic_validation(asked.kafka(id))

    @router.post("/validate/kafka", summary="As for a pipeline, with a config that is not saved")
    def validate_kafka_inline(body: dict[str, Any]) -> TopicValidation:
        return topic_validation(kafka_of(kafka_to_store(body, None)))

    @router.post("/pipelines/{id}/validate/clickhouse", summary="Whether ClickHouse answers and the database exists")
    def validate_clickhouse(id: str) -> Validation:
        return _clickhouse(asked.clickhouse(id))

    @router.post("/validate/clickhouse", summary="As for a pipeline, with a config that is not saved")
    def validate_clickhouse_inline(body: dict[str, Any]) -> Validation:
        return _clickhouse(validated(ClickHouseConfig, body))

    @router.post("/pipelines/{id}/validate/clickhouse-table", summary="A table beside the mapping that fills it")
    def validate_table(id: str, body: TableQuestion) -> TableValidation:
        return table_validation(lambda: asked.table(id, columns=body.columns, name=body.table), create=body.create)

    @router.post("/validate/clickhouse-table", summary="As for a pipeline, with configs that are not saved")
    def validate_table_inline(
        kafka: dict[str, Any], clickhouse: dict[str, Any], mapping: dict[str, Any], create: bool = False
    ) -> TableValidation:
        parts = validated(KafkaConfig, kafka), validated(ClickHouseConfig, clickhouse), validated(Mapping, mapping)
        return table_validation(lambda: checks.table_of(*parts), create=create)

    @router.get("/pipelines/{id}/clickhouse/databases", summary="The databases of ClickHouse")
    def databases(id: str) -> list[str]:
        return checks.databases(asked.clickhouse(id))

    @router.get("/pipelines/{id}/clickhouse/tables", summary="The tables of a database")
    def tables(id: str, db: Text) -> list[str]:
        return checks.tables(asked.clickhouse(id), db)

    @router.get("/pipelines/{id}/clickhouse/schema", summary="The columns of a table")
    def schema(id: str, db: Text, table: Text) -> list[LiveColumnShown]:
        found = checks.columns(asked.clickhouse(id), db, table)
        return [LiveColumnShown(name=name, type=kind, default=default) for name, kind, default in found]

    @router.get("/pipelines/{id}/sample", summary="Columns inferred from records of the topic")
    def infer(id: str, limit: SampleLimit = 100, start: From = "end") -> list[InferredColumn]:
        return [_inferred(each) for each in asked.proposal(id, limit, start_of(start)).mapping.columns]

    @router.get("/pipelines/{id}/proposal", summary="A mapping that fits records of the topic, and its table")
    def propose(id: str, limit: SampleLimit = 100, start: From = "end") -> dict[str, Any]:
        found = asked.proposal(id, limit, start_of(start))
        document = found.mapping.model_dump(mode="json", by_alias=True)
        return {"mapping": document, "ttl": found.ttl, "ignored": list(found.ignored)}

    @router.get("/pipelines/{id}/preview", summary="Records of the topic, what the filter says of them, and their rows")
    def preview(id: str, limit: SampleLimit = 20, start: From = "end") -> list[PreviewShown]:
        return [preview_shown(sample, row, kept) for sample, kept, row in asked.preview(id, limit, start_of(start))]

    @router.post("/pipelines/{id}/filters-eval", summary="Whether a filter keeps a record")
    def evaluate(id: str, body: FilterQuestion) -> FilterAnswer:
        store.pipelines.get(id)
        try:
            return FilterAnswer(result=asked.evaluate(id, body.expression, body.sample))
        except GaussError as error:
            return FilterAnswer(result=False, error=error.message)

    return router


def topic_validation(config: KafkaConfig) -> TopicValidation:
    """Whether brokers answer and have the topic."""
    try:
        _check_brokers(config.brokers)
        partitions = checks.check_kafka(config)
    except GaussError as error:
        return TopicValidation(**checks.outcome(error))
    return TopicValidation(ok=True, message=f"the topic has {partitions} partitions", partitions=partitions)


def _check_brokers(brokers: list[str]) -> None:
    """Raises Unavailable if no broker takes a connection, at once and in plain words: a Kafka client tries again until
    its patience ends."""
    reasons = []
    until = time.monotonic() + CONNECT_SECONDS
    for each in brokers:
        host, _, port = each.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), max(until - time.monotonic(), 0.1)).close()
            return
        except TimeoutError:
            reasons.append(f"{each} does not answer")
        except socket.gaierror:
            reasons.append(f"no host has the name in {each}")
        except (OSError, ValueError):
            reasons.append(f"nothing listens at {each}")
    raise Unavailable("; ".join(reasons[:MOST_TOLD]), hint="check that the brokers are up, and their addresses")


def _clickhouse(config: ClickHouseConfig) -> Validation:
    try:
        return Validation(ok=True, message=f"ClickHouse {checks.check_clickhouse(config)}")
    except GaussError as error:
        return Validation(**checks.outcome(error))


def table_validation(make: Callable[[], MappedTable], *, create: bool) -> TableValidation:
    """A table beside the mapping that fills it. `create`: makes it, or adds missing columns."""
    try:
        found = checks.check_table(make(), create=create)
    except ValidationError as error:
        raise ConfigError(faults(error)) from None
    except GaussError as error:
        return TableValidation(**checks.outcome(error))
    names = TableDifference.model_fields
    differences = [TableDifference(**{name: getattr(each, name) for name in names}) for each in found.differences]
    message = "the table fits" if found.exists else "the table is missing"
    if differences:
        message = f"the table differs from the mapping: {'; '.join(map(str, found.differences))}"
    return TableValidation(
        ok=not differences,
        message=message,
        exists=found.exists,
        ddl=found.statement,
        differences=differences,
        guarantee=found.guarantee,
    )


def _inferred(column: MappingColumn) -> InferredColumn:
    return InferredColumn(**column.model_dump())


def preview_shown(sample: Sample, row: PreviewRow, kept: bool | None) -> PreviewShown:
    """A record beside its row, as JSON types."""
    return PreviewShown(
        partition=sample.partition,
        offset=sample.offset,
        raw=None if row.raw is None else row.raw.decode(errors="replace"),
        kept=kept,
        mapped=None if row.mapped is None else {name: _plain(value) for name, value in row.mapped.items()},
        error=None if row.error is None else PreviewFault(**row.error._asdict()),
    )


def start_of(text: str) -> str | int:
    """Where samples start: `beginning`, `end`, or a time in Unix milliseconds. Raises ConfigError."""
    if text in ("beginning", "end"):
        return text
    now = time.time_ns() // 1_000_000
    try:
        return moment_ms(moment(int(text) if text.lstrip("-").isdecimal() else text), now)
    except ValueError as error:
        raise ConfigError(
            f"from: {error}", hint="beginning, end, or a time such as 2026-01-31T10:00:00Z or -5m"
        ) from None


def as_json(value: Any) -> str:
    """A decoded record as JSON, with all its digits."""
    plain: dict[Any, Callable[[Any], Any]] = {Decimal: str, bytes: lambda found: found.decode(errors="replace")}
    return json.dumps(jsonable_encoder(value, custom_encoder=plain), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value of a row as JSON, with all its digits."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(value)
    return jsonable_encoder(value, custom_encoder={Decimal: str})
