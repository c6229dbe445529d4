"""The configs of pipelines at the versions that intents name, read once each."""

from __future__ import annotations

from dataclasses import replace

from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.config.filters import FiltersConfig
from gauss.fleet.config.stored import clickhouse_of, kafka_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.store.configs import Kind
from gauss.fleet.worker.range_work import PipelineConfig
from gauss.model.errors import ConfigError


def with_newest_connections(pinned: PipelineConfig, newest: PipelineConfig) -> PipelineConfig:
    """The config that an intent names, which alone says what rows are made and where they go, with the newest logins
    for the same topic and the same table."""
    kafka, clickhouse = pinned.kafka, pinned.clickhouse
    if kafka.topic == newest.kafka.topic and kafka.format_config == newest.kafka.format_config:
        kafka = newest.kafka if kafka.format == newest.kafka.format else kafka
    if _table(clickhouse) == _table(newest.clickhouse):
        clickhouse = newest.clickhouse
    return replace(pinned, kafka=kafka, clickhouse=clickhouse)


def _table(config: ClickHouseConfig) -> tuple[object, ...]:
    address = config.address()
    return address.host, address.port, config.database, config.table


class PipelineConfigs:
    """The configs of one pipeline."""

    def __init__(self, store: FleetStore, pipeline_id: str) -> None:
        self._store = store
        self._pipeline_id = pipeline_id
        self._known: dict[int, PipelineConfig] = {}

    def at(self, version: int) -> PipelineConfig:
        """Raises ConfigError if a part is missing."""
        if version not in self._known:
            parts = self._store.configs.as_of(self._pipeline_id, version)
            if missing := [str(kind) for kind in (Kind.KAFKA, Kind.CLICKHOUSE, Kind.MAPPING) if kind not in parts]:
                raise ConfigError(
                    f"the pipeline has no {' and no '.join(missing)} config", hint="save it, then it starts"
                )
            filters = parts.get(Kind.FILTERS)
            self._known = dict(list(self._known.items())[-1:])  # the last two at most
            self._known[version] = PipelineConfig(
                self._pipeline_id,
                version,
                kafka_of(parts[Kind.KAFKA]),
                clickhouse_of(parts[Kind.CLICKHOUSE]),
                Mapping.model_validate(parts[Kind.MAPPING].document),
                FiltersConfig() if filters is None else FiltersConfig.model_validate(filters.document),
            )
        return self._known[version]
