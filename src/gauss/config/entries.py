"""Checks each entry of a config by itself: types, and plugin configs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from gauss import registry
from gauss.config.databases import DatabaseDef
from gauss.config.faults import Faults, Scope
from gauss.config.files import check_files
from gauss.config.section import Section
from gauss.config.spec import (
    ApiSection,
    EngineSection,
    FormatDef,
    Pipeline,
    ProcessorDef,
    SchemaMapDef,
    SparkSection,
    TopicDef,
)
from gauss.config.strict import refuse_conversions
from gauss.config.sync_rules import read_syncs
from gauss.config.syncs import SyncDef
from gauss.config.validate import did_you_mean, report, validate, without_faults
from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig, PluginSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageSpec
from gauss.model.errors import PluginError

D = TypeVar("D", bound=Section)
S = TypeVar("S", bound=PluginSpec)
SECTIONS = ("formats", "topics", "processors", "schema_maps", "syncs", "databases")
"""Sections whose entries have names."""


@dataclass(frozen=True)
class Entry(Generic[D, S]):
    """One entry of a section: its definition, and its plugin's spec and config if they are valid."""

    scope: Scope
    definition: D
    spec: S | None
    config: PluginConfig | None


Format = Entry[FormatDef, FormatSpec]
Topic = Entry[TopicDef, StorageSpec]
Processor = Entry[ProcessorDef, ProcessorSpec]


@dataclass(frozen=True)
class Entries:
    """All entries of a config, each checked by itself."""

    formats: list[Format]
    topics: list[Topic]
    processors: list[Processor]
    schema_maps: list[tuple[Scope, SchemaMapDef]]
    syncs: list[tuple[Scope, SyncDef]]
    databases: list[tuple[Scope, DatabaseDef]]
    spark: SparkSection
    engine: EngineSection
    api: ApiSection
    names: dict[str, list[str]]
    """The names defined in each section, including those of faulty entries."""


def read_entries(data: dict[str, Any], base_dir: Path, faults: Faults) -> Entries:
    """Checks types and plugins of every entry. Faulty entries are reported and omitted."""
    known = sorted(Pipeline.model_fields)
    for key in data:
        if key not in known:
            hint = did_you_mean(key, known)
            faults.add((key,), f'unknown section "{key}"', expected=f"one of {', '.join(known)}", hint=hint)
    reader = _Reader(data, base_dir, faults)
    return Entries(
        formats=reader.entries("formats", FormatDef, FormatSpec, plugin_key="plugin", config_key="config"),
        topics=reader.entries("topics", TopicDef, StorageSpec, plugin_key="storage", config_key="storage_config"),
        processors=reader.entries("processors", ProcessorDef, ProcessorSpec, plugin_key="plugin", config_key="config"),
        schema_maps=reader.typed("schema_maps", SchemaMapDef),
        syncs=read_syncs(list(reader.tables("syncs")), base_dir),
        databases=reader.typed("databases", DatabaseDef),
        spark=reader.section("spark", SparkSection),
        engine=reader.section("engine", EngineSection),
        api=reader.section("api", ApiSection),
        names={section: reader.names(section) for section in SECTIONS},
    )


class _Reader:
    def __init__(self, data: dict[str, Any], base_dir: Path, faults: Faults) -> None:
        self.data = data
        self.base_dir = base_dir
        self.faults = faults

    def entries(
        self, section: str, model: type[D], kind: type[S], *, plugin_key: str, config_key: str
    ) -> list[Entry[D, S]]:
        found: list[Entry[D, S]] = []
        for scope, table in self.tables(section):
            definition = validate(model, table, scope, salvage=True)
            # The plugin is checked even if the entry is faulty, to report all faults at once.
            name, raw = table.get(plugin_key), table.get(config_key, {})
            spec = find_spec(kind, name, plugin_key, scope) if isinstance(name, str) else None
            config = self.config(spec, raw, scope.inside(config_key)) if spec and isinstance(raw, dict) else None
            if definition is not None:
                found.append(Entry(scope, definition, spec, config))
        return found

    def typed(self, section: str, model: type[D]) -> list[tuple[Scope, D]]:
        """The entries of a section without plugins."""
        return [
            (scope, found)
            for scope, table in self.tables(section)
            if (found := validate(model, table, scope, salvage=True))
        ]

    def config(self, spec: PluginSpec, raw: dict[str, Any], scope: Scope) -> PluginConfig | None:
        """A plugin's typed config, or `None` if it is too faulty to use."""
        try:
            config = spec.validate(raw)
            refuse_conversions(raw, config, scope)
        except ValidationError as error:
            report(error, spec.config, raw, scope)
            mended = without_faults(error, raw)
            framed = spec.framed if isinstance(spec, ProcessorSpec) and not spec.is_raw(raw) else ""
            if framed and isinstance(side := mended.get(framed, {}), dict):
                mended[framed] = {"framing": "newline", **side}  # the missing key is reported; the rest is checked too
            try:
                config = spec.validate(mended)
            except ValidationError as hidden:
                # Pydantic runs rules about the whole table only if each key is valid.
                report(hidden, spec.config, mended, scope, only_new=True)
                return None
            if not all(
                item["type"] == "extra_forbidden" or item["loc"][-1:] == ("framing",) for item in error.errors()
            ):
                return None
        check_files(config, self.base_dir, scope)
        return config

    def tables(self, section: str) -> Iterator[tuple[Scope, dict[str, Any]]]:
        """The tables of an array of tables, with their scopes."""
        value = self.data.get(section, [])
        if not isinstance(value, list):
            self.faults.add(
                (section,),
                f'"{section}" is not valid',
                expected=f"[[{section}]] entries",
                found=value,
                hint=f"write [[{section}]] in double brackets",
            )
            return
        kind = section.removesuffix("s").replace("_", " ")
        for index, table in enumerate(value):
            if not isinstance(table, dict):
                self.faults.add((section, index), f'"{section}" is not valid', expected="a table", found=table)
                continue
            name = table.get("name")
            subject = f'{kind} "{name}"' if isinstance(name, str) else f"{kind} {index + 1}"
            yield Scope(self.faults, (section, index), subject), table

    def section(self, name: str, model: type[D]) -> D:
        value = self.data.get(name, {})
        return validate(model, value, Scope(self.faults, (name,), f"[{name}]"), salvage=True) or model()

    def names(self, section: str) -> list[str]:
        value = self.data.get(section)
        tables = value if isinstance(value, list) else []
        named = [table["name"] for table in tables if isinstance(table, dict) and isinstance(table.get("name"), str)]
        return list(dict.fromkeys(named))


def find_spec(kind: type[S], name: str, key: str, scope: Scope) -> S | None:
    """A plugin's spec by name, or `None` after reporting a fault at `key`."""
    try:
        return registry.spec(kind, name)
    except PluginError as error:
        hint = error.hint
        if "/" in name:
            installed = registry.names(kind)
            near = did_you_mean(Path(name).stem, installed) or f"installed: {', '.join(installed)}"
            hint = f"use the name of a plugin, not a file; {near}"
        scope.add((key,), error.message, hint=hint)
        return None
