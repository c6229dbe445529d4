"""References to `[[databases]]`: who refers to which, and the config with the addresses of their instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gauss import registry
from gauss.config.spec import Pipeline
from gauss.config.sync_rules import KINDS, WASM_SUFFIX
from gauss.config.syncs import ConnectorDef, SyncDef
from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageSpec

SYSTEM = "postgres"
"""The system whose databases are prepared."""
KEY = "database"


class Part(NamedTuple):
    """A section whose entries have a plugin."""

    section: str
    kind: type[PluginSpec]
    plugin_key: str
    config_key: str


PARTS = (
    Part("formats", FormatSpec, "plugin", "config"),
    Part("topics", StorageSpec, "storage", "storage_config"),
    Part("processors", ProcessorSpec, "plugin", "config"),
)


def database_of(spec: object, config: Mapping[str, Any]) -> str | None:
    """The `[[databases]]` entry that a config refers to: `database` of a Postgres without an address."""
    if getattr(spec, "system", "") != SYSTEM or "dsn" in config or "host" in config:
        return None
    name = config.get(KEY)
    return name if isinstance(name, str) else None


def side_database(role: str, side: ConnectorDef) -> str | None:
    """The database that a side of a sync refers to. A class or a module has settings that only it knows."""
    if ":" in side.connector or side.connector.endswith(WASM_SUFFIX):
        return None
    return database_of(registry.spec(KINDS[role], side.connector), side.config)


def databases_of(pipeline: Pipeline) -> set[str]:
    """The databases that formats, topics and processors of a valid pipeline refer to; those of syncs are apart."""
    return {name for part in PARTS for _, name in _named(pipeline, part) if name is not None}


def databases_of_sync(sync: SyncDef) -> set[str]:
    """The databases that a valid sync refers to."""
    return {name for role in KINDS if (name := side_database(role, getattr(sync, role))) is not None}


def with_addresses(pipeline: Pipeline, dsns: Mapping[str, str]) -> Pipeline:
    """The pipeline with the address of each of these databases wherever formats, topics, processors and syncs refer to
    it."""
    changes: dict[str, Any] = {
        part.section: [
            each.model_copy(update={part.config_key: _addressed(getattr(each, part.config_key), name, dsns)})
            for each, name in _named(pipeline, part)
        ]
        for part in PARTS
    }
    changes["syncs"] = [sync_with_addresses(each, dsns) for each in pipeline.syncs]
    return pipeline.model_copy(update=changes)


def sync_with_addresses(sync: SyncDef, dsns: Mapping[str, str]) -> SyncDef:
    """A sync with the address of each of these databases wherever it refers to it."""
    changes = {}
    for role in KINDS:
        side: ConnectorDef = getattr(sync, role)
        config = _addressed(side.config, side_database(role, side), dsns)
        changes[role] = ConnectorDef(connector=side.connector, **config)
    return sync.model_copy(update=changes)


def _named(pipeline: Pipeline, part: Part) -> Iterator[tuple[Any, str | None]]:
    """The entries of a section, each with the database that it refers to."""
    for each in getattr(pipeline, part.section):
        spec = registry.spec(part.kind, getattr(each, part.plugin_key))
        yield each, database_of(spec, getattr(each, part.config_key))


def _addressed(config: dict[str, Any], name: str | None, dsns: Mapping[str, str]) -> dict[str, Any]:
    if name is None or name not in dsns:
        return config
    return {**{key: value for key, value in config.items() if key != KEY}, "dsn": dsns[name]}
