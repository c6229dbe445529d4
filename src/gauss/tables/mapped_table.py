"""A table and everything needed to turn records into its rows: format, source schema, target schema, store."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gauss.contracts.format import FieldType, Format, SourceField, SourceSchema
from gauss.contracts.table import TableConfig, TablePlace, TableSpec, TableStore
from gauss.contracts.table_read import TableReader
from gauss.contracts.target import TargetSchema
from gauss.mapping.columns import ColumnMap
from gauss.mapping.script import run_file
from gauss.model.errors import ConfigError
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN

BLOB = SourceSchema((SourceField("payload", FieldType("bytes")),))
"""The source schema of records without a format."""


@dataclass(frozen=True)
class MappedTable:
    """A table, the schema of the records written to it, and the mapping between them."""

    name: str
    config: TableConfig
    store: TableStore
    format: Format | None
    source: SourceSchema
    target: TargetSchema
    """All columns, including `_inc` and `_offset`."""
    reader: TableReader

    @property
    def mapped(self) -> TargetSchema:
        """The columns filled from records."""
        own = tuple(field for field in self.target.fields if field.name not in (INC_COLUMN, OFFSET_COLUMN))
        return replace(self.target, fields=own)

    def columns(self) -> ColumnMap:
        return ColumnMap(self.source, self.mapped, self.store.kind)

    @property
    def decoded(self) -> list[SourceField]:
        """The fields that must be decoded to fill the columns."""
        known = {field.name for field in self.source.fields}
        return [field for field in self.columns().fields if field.name in known]


def map_table(
    spec: TableSpec, config: TableConfig, place: TablePlace, format_: Format | None, script: Path | None
) -> MappedTable:
    """The table of a config and its schema map, if it has one. Raises ConfigError; opens no connection."""
    store: TableStore = load_attribute(spec.writer)(config, place)
    source = None if format_ is None else _schema(format_, place.topic, config)
    known = source or BLOB
    target = store.target(source, None if script is None else lambda start: run_file(script, known, start))
    reader: TableReader = load_attribute(spec.reader)(config, place, known, target)
    return MappedTable(place.topic, config, store, format_, known, target, reader)


def load_attribute(path: str) -> Any:
    """The object named by `package.module:attribute`."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _schema(format_: Format, topic: str, config: TableConfig) -> SourceSchema:
    schema = format_.schema()
    if schema is None:
        raise ConfigError(
            f'topic "{topic}": format "{config.format}" has no schema, and a table needs columns',
            hint="name the format's fields with their types",
        )
    return schema
