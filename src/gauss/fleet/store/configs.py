"""Versioned configs of pipelines: each change makes a version of the whole pipeline, which intents name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store import audit
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.pipelines import Pipeline, locked
from gauss.fleet.store.schema import (
    CLICKHOUSE_CONFIGS,
    CONFIG_VERSIONS,
    FILES,
    FILTERS_CONFIGS,
    KAFKA_CONFIGS,
    MAPPINGS,
    PIPELINES,
)
from gauss.fleet.store.sealing import Seal
from gauss.model.errors import ConfigError, NotFound


class Kind(StrEnum):
    """The parts of a pipeline's config."""

    KAFKA = "kafka"
    CLICKHOUSE = "clickhouse"
    FILTERS = "filters"
    MAPPING = "mapping"
    FILE = "file"
    """A whole file of Gauss, instead of all others."""


_CURRENT = {
    Kind.KAFKA: KAFKA_CONFIGS,
    Kind.CLICKHOUSE: CLICKHOUSE_CONFIGS,
    Kind.FILTERS: FILTERS_CONFIGS,
    Kind.MAPPING: MAPPINGS,
    Kind.FILE: FILES,
}


class Config(NamedTuple):
    """One part of a pipeline's config, as JSON types."""

    document: Any
    secrets: Mapping[str, str]
    """By field; they are not part of the document."""
    version: int = 0
    """The version that wrote it."""


class ConfigVersion(NamedTuple):
    """One version of a pipeline's config."""

    version: int
    kinds: tuple[Kind, ...]
    """The parts that it changed."""
    who: str
    note: str
    at: int


def _check_kind(pipeline: Pipeline, kind: Kind) -> None:
    """A pipeline is a file or reads a topic, from its first config on."""
    if not pipeline.version or (kind is Kind.FILE) == pipeline.is_file:
        if kind is Kind.FILE and pipeline.replicas > 1:
            raise ConfigError(
                f"a pipeline that is a file runs with one replica, and this one has {pipeline.replicas}",
                hint="set its replicas to 1 first",
            )
        return
    what = "is a file of Gauss" if pipeline.is_file else "reads a topic by its own configs"
    raise ConfigError(f"this pipeline {what}", hint="create another pipeline")


class Configs:
    """The configs of all pipelines."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database = database
        self._seal = seal

    def get(self, pipeline_id: str, kind: Kind) -> Config | None:
        """The newest config of a kind."""
        with self._database.transaction() as connection:
            return self._current(connection, pipeline_id, kind)

    def change(self, pipeline_id: str, kind: Kind, who: str, make: Callable[[Config | None], Config]) -> Config:
        """Replaces a config by what `make` makes of the current one. No new version if nothing differs."""
        with self._database.transaction() as connection:
            pipeline = locked(connection, pipeline_id)
            version = pipeline.version
            _check_kind(pipeline, kind)
            old = self._current(connection, pipeline_id, kind)
            new = make(old)
            if old is not None and (old.document, dict(old.secrets)) == (new.document, dict(new.secrets)):
                return old
            written = new._replace(version=version + 1)
            self._write(connection, pipeline_id, {kind: written}, version=version + 1, who=who)
            audit.record(connection, who, f"config.{kind}", pipeline_id, version=version + 1)
            return written

    def rollback(self, pipeline_id: str, version: int, who: str) -> int:
        """Makes a new version that equals an earlier one; returns its number. Parts that the earlier version did not
        have stay as they are."""
        with self._database.transaction() as connection:
            newest = locked(connection, pipeline_id).version
            if not 1 <= version <= newest:
                raise NotFound(f"no version {version}", hint=f"this pipeline has versions 1 to {newest}")
            wanted, now = self._as_of(connection, pipeline_id, version), self._as_of(connection, pipeline_id, newest)
            changed = {kind: config for kind, config in wanted.items() if config[:2] != now[kind][:2]}
            if not changed:
                return newest
            self._write(connection, pipeline_id, changed, version=newest + 1, who=who, note=f"rollback to {version}")
            audit.record(connection, who, "config.rollback", pipeline_id, to=version, version=newest + 1)
            return newest + 1

    def versions(self, pipeline_id: str) -> list[ConfigVersion]:
        """All versions, the newest first."""
        columns = CONFIG_VERSIONS.c
        query = sa.select(columns.version, columns.kind, columns.who, columns.note, columns.at).where(
            columns.pipeline_id == pipeline_id
        )
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(columns.version.desc(), columns.kind)).all()
        found: dict[int, ConfigVersion] = {}
        for row in rows:
            kinds = (*found[row.version].kinds, Kind(row.kind)) if row.version in found else (Kind(row.kind),)
            found[row.version] = ConfigVersion(row.version, kinds, row.who, row.note, row.at)
        return list(found.values())

    def as_of(self, pipeline_id: str, version: int) -> dict[Kind, Config]:
        """All parts of the config as they were at a version."""
        with self._database.transaction() as connection:
            return self._as_of(connection, pipeline_id, version)

    def _as_of(self, connection: sa.Connection, pipeline_id: str, version: int) -> dict[Kind, Config]:
        columns = CONFIG_VERSIONS.c
        query = (
            sa.select(columns.kind, columns.document, columns.secrets, columns.version)
            .where(columns.pipeline_id == pipeline_id, columns.version <= version)
            .order_by(columns.version)
        )
        return {  # a later row replaces an earlier one of the same kind
            Kind(row.kind): self._opened(pipeline_id, Kind(row.kind), row) for row in connection.execute(query)
        }

    def _current(self, connection: sa.Connection, pipeline_id: str, kind: Kind) -> Config | None:
        table = _CURRENT[kind]
        row = connection.execute(sa.select(table).where(table.c.pipeline_id == pipeline_id)).first()
        return None if row is None else self._opened(pipeline_id, kind, row)

    def _opened(self, pipeline_id: str, kind: Kind, row: Any) -> Config:
        return Config(json.loads(row.document), self._seal.open(row.secrets, f"{pipeline_id}/{kind}"), row.version)

    def _write(
        self,
        connection: sa.Connection,
        pipeline_id: str,
        configs: Mapping[Kind, Config],
        *,
        version: int,
        who: str,
        note: str = "",
    ) -> None:
        for kind, config in configs.items():
            row = {
                "pipeline_id": pipeline_id,
                "version": version,
                "document": json.dumps(config.document),
                "secrets": self._seal.close(config.secrets, f"{pipeline_id}/{kind}"),
            }
            table = _CURRENT[kind]
            connection.execute(table.delete().where(table.c.pipeline_id == pipeline_id))
            connection.execute(table.insert().values(**row))
            connection.execute(CONFIG_VERSIONS.insert().values(**row, kind=kind, who=who, note=note, at=now_ms()))
        where = PIPELINES.c.id == pipeline_id
        connection.execute(PIPELINES.update().where(where).values(version=version, updated_at=now_ms()))
