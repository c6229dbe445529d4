"""A table topic understood: its format, the columns its records become, and the table they go to."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.config.spec import Pipeline
from gauss.contracts.format import FieldType, Format, FormatSpec, SourceField, SourceSchema
from gauss.contracts.format_batch import batched
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import INC_COLUMN, OFFSET_COLUMN, TableConfig, TablePlace, TableSpec, TableStore
from gauss.contracts.table_read import TableReader
from gauss.contracts.target import TargetSchema
from gauss.mapping.columns import ColumnMap
from gauss.mapping.script import run_file
from gauss.model.errors import ConfigError, NotFound
from gauss.model.paths import DataDir
from gauss.stream.orders import passes_rows
from gauss.stream.rows_format import RowsConfig, RowsFormat, rows_config

BLOB = SourceSchema((SourceField("payload", FieldType("bytes")),))
"""What a record is that nobody decodes."""


@dataclass(frozen=True)
class TableTopic:
    """A topic, its table, and the way between them."""

    name: str
    config: TableConfig
    store: TableStore
    format: Format | None
    source: SourceSchema
    target: TargetSchema
    """With the columns that Gauss adds."""
    reader: TableReader

    @property
    def mapped(self) -> TargetSchema:
        """The columns that records fill."""
        own = tuple(field for field in self.target.fields if field.name not in (INC_COLUMN, OFFSET_COLUMN))
        return replace(self.target, fields=own)

    def columns(self) -> ColumnMap:
        return ColumnMap(self.source, self.mapped, self.store.kind)

    @property
    def decoded(self) -> list[SourceField]:
        """The fields that are decoded."""
        known = {field.name for field in self.source.fields}
        return [field for field in self.columns().fields if field.name in known]


def table_names(pipeline: Pipeline) -> list[str]:
    """The topics whose storage is a table."""
    return [each.name for each in pipeline.topics if isinstance(registry.spec(StorageSpec, each.storage), TableSpec)]


def table_topic(pipeline: Pipeline, name: str, base_dir: Path, data_dir: DataDir) -> TableTopic:
    """Reads a topic's format and runs its schema map; raises ConfigError, and connects to nothing."""
    definition = next((topic for topic in pipeline.topics if topic.name == name), None)
    spec = registry.spec(StorageSpec, definition.storage) if definition else None
    if definition is None or not isinstance(spec, TableSpec):
        raise NotFound(f'no table topic "{name}"', hint=f"in this config: {', '.join(table_names(pipeline)) or 'none'}")
    config: TableConfig = spec.validate(definition.storage_config)  # type: ignore[assignment]
    place = TablePlace(name, data_dir.server(spec.system))
    store: TableStore = _loaded(spec.writer)(config, place)
    format_ = _format(pipeline, config.format)
    if format_ is None:
        format_ = _rows_format(pipeline, name, base_dir, data_dir)
    source = None if format_ is None else _schema(format_, name, config)
    script = next((each.script for each in pipeline.schema_maps if each.name == config.schema_map), None)
    known = source or BLOB
    mapped = None if script is None else lambda target: run_file(base_dir / script, known, target)
    target = store.target(source, mapped)
    reader: TableReader = _loaded(spec.reader)(config, place, known, target)
    return TableTopic(name, config, store, format_, known, target, reader)


def _rows_format(pipeline: Pipeline, name: str, base_dir: Path, data_dir: DataDir) -> Format | None:
    """Rows of another table as records, where that is all that is written to a topic: it needs no format then."""
    writers = [each for each in pipeline.processors if each.target is not None and each.target.topic == name]
    if len(writers) != 1 or not passes_rows(pipeline, writers[0]):
        return None
    source = writers[0].source
    assert source is not None
    return RowsFormat(RowsConfig(**rows_config(table_topic(pipeline, source.topic, base_dir, data_dir).reader)))


def _loaded(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _format(pipeline: Pipeline, name: str | None) -> Format | None:
    if name is None:
        return None
    defined = pipeline.format(name)
    spec = registry.spec(FormatSpec, defined.plugin if defined else name)
    return batched(registry.build(spec, spec.validate(defined.config if defined else {})))


def _schema(format_: Format, topic: str, config: TableConfig) -> SourceSchema:
    schema = format_.schema()
    if schema is None:
        raise ConfigError(
            f'topic "{topic}": format "{config.format}" has no schema, and a table needs columns',
            hint="name the format's fields with their types",
        )
    return schema
