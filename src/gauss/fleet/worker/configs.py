"""The configs of pipelines at the versions that intents name, read once each."""

from __future__ import annotations

from gauss.fleet.config.filters import FiltersConfig
from gauss.fleet.config.stored import clickhouse_of, kafka_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.store.configs import Kind
from gauss.fleet.worker.range_work import PipelineConfig
from gauss.model.errors import ConfigError


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
