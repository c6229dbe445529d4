"""Questions to the brokers and the ClickHouse of a pipeline: do they answer, what is there, does it fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.live import describe
from gauss.clients.clickhouse.types import render_type
from gauss.clients.clickhouse.write import query_arrow
from gauss.clients.kafka.admin import Admin
from gauss.contracts.evolution import Change, Difference
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.config.filters import FiltersConfig, RecordFilter
from gauss.fleet.config.kafka import KafkaConfig
from gauss.fleet.config.stored import clickhouse_of, kafka_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.mapping.compile import TableName, compile_mapping, create_statement
from gauss.fleet.mapping.preview import PreviewRow, RowFault, preview
from gauss.fleet.mapping.proposal import Proposal
from gauss.fleet.mapping.samples import propose_from
from gauss.fleet.sampling import Sample, sample
from gauss.fleet.store.configs import Config, Kind
from gauss.model.errors import ConfigError, GaussError, NotFound
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.tables.mapped_table import MappedTable

CHECK_MS = 10_000
"""Longest wait for an answer of a broker."""


class TableCheck(NamedTuple):
    """A table beside the mapping that fills it."""

    exists: bool
    statement: str
    differences: list[Difference]
    guarantee: str


class Checks:
    """Answers for stored pipelines."""

    def __init__(self, store: FleetStore) -> None:
        self._store = store

    def _config(self, pipeline_id: str, kind: Kind) -> Config:
        self._store.pipelines.get(pipeline_id)
        found = self._store.configs.get(pipeline_id, kind)
        if found is None:
            raise NotFound(f"this pipeline has no {kind} config yet", hint="save it first")
        return found

    def kafka(self, pipeline_id: str) -> KafkaConfig:
        return kafka_of(self._config(pipeline_id, Kind.KAFKA))

    def clickhouse(self, pipeline_id: str) -> ClickHouseConfig:
        return clickhouse_of(self._config(pipeline_id, Kind.CLICKHOUSE))

    def mapping(self, pipeline_id: str) -> Mapping:
        return Mapping.model_validate(self._config(pipeline_id, Kind.MAPPING).document)

    def table(self, pipeline_id: str, *, columns: list[dict[str, Any]] | None = None, name: str = "") -> MappedTable:
        """The table that a pipeline fills, or one with other columns or another name."""
        kafka, clickhouse = self.kafka(pipeline_id), self.clickhouse(pipeline_id)
        if columns is None:
            mapping = self.mapping(pipeline_id)
        else:
            stored = self._store.configs.get(pipeline_id, Kind.MAPPING)
            document = {**({} if stored is None else stored.document), "columns": columns}
            names = {each.get("column") for each in columns}
            document["orderBy"] = [each for each in document.get("orderBy", ()) if each in names]
            mapping = Mapping.model_validate(document)
        return table_of(kafka, clickhouse, mapping, name)

    def samples(self, pipeline_id: str, limit: int, start: str | int) -> list[Sample]:
        kafka = self.kafka(pipeline_id)
        settings = kafka.settings().model_copy(update={"request_timeout": CHECK_MS})
        return sample(settings, kafka.topic, limit, start)

    def proposal(self, pipeline_id: str, limit: int, start: str | int) -> Proposal:
        """The mapping that fits samples."""
        kafka = self.kafka(pipeline_id)
        data = [each.data for each in self.samples(pipeline_id, limit, start)]
        return propose_from(data, kafka.format, kafka.format_config)

    def preview(self, pipeline_id: str, limit: int, start: str | int) -> list[tuple[Sample, bool | None, PreviewRow]]:
        """Samples, whether the filter keeps each (None without one), and the rows of those that it keeps."""
        table = self.table(pipeline_id)
        samples = self.samples(pipeline_id, limit, start)
        data = [each.data for each in samples]
        rows = preview(table, data, [each.ts_ms for each in samples])
        filters = self._filters(pipeline_id)
        if not filters.enabled:
            return [(each, None, row) for each, row in zip(samples, rows, strict=True)]
        kafka = self.kafka(pipeline_id)
        judged = judge(RecordFilter(filters.expression, kafka.format, kafka.format_config), data)
        found = []
        for each, row, verdict in zip(samples, rows, judged, strict=True):
            is_judged = each.data is not None and verdict is not True
            left_out = PreviewRow(row.raw, None, verdict if isinstance(verdict, RowFault) else None)
            found.append((each, verdict if isinstance(verdict, bool) else None, left_out if is_judged else row))
        return found

    def _filters(self, pipeline_id: str) -> FiltersConfig:
        found = self._store.configs.get(pipeline_id, Kind.FILTERS)
        return FiltersConfig() if found is None else FiltersConfig.model_validate(found.document)

    def evaluate(self, pipeline_id: str, expression: str, given: Any) -> bool:
        """Whether a filter keeps a record, given as an object or as text. Raises ConfigError if it can't judge it."""
        found = self._store.configs.get(pipeline_id, Kind.KAFKA)
        kafka = None if found is None else kafka_of(found)
        if kafka is None or not isinstance(given, str):
            name, settings = "json", dict[str, Any]()
        else:
            name, settings = kafka.format, kafka.format_config
        record = given if isinstance(given, str) else json.dumps(given)
        try:
            data = record.encode()
        except UnicodeEncodeError:
            raise ConfigError("the record is no Unicode text", hint="it has half of a surrogate pair") from None
        judged = RecordFilter(expression, name, settings).judge(pa.array([data], pa.binary()))
        if judged.bad:
            raise ConfigError(f"the record can't be judged: {judged.bad[0][2]}", hint="correct one of them")
        return judged.keep[0]


def judge(filter_: RecordFilter, data: Sequence[bytes | None]) -> list[bool | RowFault | None]:
    """What a filter says of each record: whether it keeps it, or why it can't judge it. None for a tombstone, which it
    does not see."""
    found: list[bool | RowFault | None] = [None] * len(data)
    places = [index for index, each in enumerate(data) if each is not None]
    judged = filter_.judge(pa.array([data[index] for index in places], pa.binary()))
    bad = {index: RowFault("filter", reason, "", detail) for index, reason, detail in judged.bad}
    for number, index in enumerate(places):
        found[index] = bad.get(number, judged.keep[number])
    return found


def table_of(kafka: KafkaConfig, clickhouse: ClickHouseConfig, mapping: Mapping, name: str = "") -> MappedTable:
    """The table that a config describes."""
    where = TableName(clickhouse.dsn, clickhouse.database, name or clickhouse.table or kafka.topic.replace(".", "_"))
    return compile_mapping(mapping, kafka.format, kafka.format_config, where)


def check_kafka(config: KafkaConfig) -> int:
    """The number of partitions of the topic. Raises NotFound, Unavailable or ConfigError."""
    settings = config.settings().model_copy(update={"request_timeout": CHECK_MS})
    return len(Admin(settings).describe(config.topic).partitions)


def check_clickhouse(config: ClickHouseConfig) -> str:
    """The version of the server. Raises Unavailable or ConfigError, also if there is no such database."""
    version = _query(config, "SELECT version() AS value")[0]["value"]
    if config.database not in databases(config):
        raise ConfigError(f'ClickHouse has no database "{config.database}"', hint="create it, or name another")
    return str(version)


def check_table(table: MappedTable, *, create: bool) -> TableCheck:
    """A live table beside its mapping. `create`: makes it, or adds missing columns."""
    try:
        if create:
            table.store.prepare(table.target)
        found = table.store.differences(table.target)
    finally:
        table.store.close()
    differences = found or []
    missing = {each.name for each in differences if each.change is Change.ADD} & {INC_COLUMN, OFFSET_COLUMN}
    guarantee = "exactly once"
    if missing:
        guarantee = f"at least once: the table has no {' and '.join(sorted(missing))}"
    return TableCheck(found is not None, create_statement(table), differences, guarantee)


def databases(config: ClickHouseConfig) -> list[str]:
    return [str(row["name"]) for row in _query(config, "SELECT name FROM system.databases ORDER BY name")]


def tables(config: ClickHouseConfig, database: str) -> list[str]:
    query = "SELECT name FROM system.tables WHERE database = {database:String} ORDER BY name"
    return [str(row["name"]) for row in _query(config, query, {"database": database})]


def columns(config: ClickHouseConfig, database: str, table: str) -> list[tuple[str, str, str]]:
    """Name, type and default of the columns of a table. Raises NotFound."""
    client = connect(replace(config.address(), database="default"))
    try:
        found = describe(client, table, database)
    finally:
        client.close()
    if found is None:
        raise NotFound(f'no table "{table}" in the database "{database}"')
    return [
        (each.name, render_type(each.field_type), f"{each.kind} {each.expression}".strip()) for each in found.columns
    ]


def _query(config: ClickHouseConfig, query: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    client = connect(replace(config.address(), database="default"))  # its own database may be missing
    try:
        found: list[dict[str, Any]] = query_arrow(client, query, parameters).to_pylist()
        return found
    finally:
        client.close()


def outcome(error: GaussError) -> dict[str, Any]:
    """A failed check as an answer."""
    return {"ok": False, "message": error.message, "hint": error.hint}
