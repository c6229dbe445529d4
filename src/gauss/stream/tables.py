"""Table topics of a pipeline."""

from __future__ import annotations

from pathlib import Path

from gauss import registry
from gauss.config.formats import named_format
from gauss.config.spec import Pipeline
from gauss.contracts.format import Format
from gauss.contracts.storage import TopicKind
from gauss.contracts.table import TableConfig, TablePlace, TableSpec
from gauss.model.errors import NotFound
from gauss.model.paths import DataDir
from gauss.stream.orders import passes_rows
from gauss.stream.rows_format import RowsConfig, RowsFormat, rows_config
from gauss.tables.mapped_table import MappedTable, map_table


def table_names(pipeline: Pipeline) -> list[str]:
    """The topics whose storage is a table."""
    return [each.name for each in pipeline.topics if each.kind is TopicKind.STORED_TABLE]


def table_topic(pipeline: Pipeline, name: str, base_dir: Path, data_dir: DataDir) -> MappedTable:
    """The table of a topic. Runs its schema map and may raise ConfigError, but opens no connection."""
    definition = next((topic for topic in pipeline.topics if topic.name == name), None)
    if definition is None or definition.kind is not TopicKind.STORED_TABLE:
        raise NotFound(f'no table topic "{name}"', hint=f"in this config: {', '.join(table_names(pipeline)) or 'none'}")
    spec = registry.spec(TableSpec, definition.storage)
    config: TableConfig = spec.validate(definition.storage_config)  # type: ignore[assignment]
    format_: Format | None = named_format(pipeline, config.format) if config.format is not None else None
    if format_ is None:
        format_ = _rows_format(pipeline, name, base_dir, data_dir)
    script = next((each.script for each in pipeline.schema_maps if each.name == config.schema_map), None)
    place = TablePlace(name, data_dir.server(spec.system))
    return map_table(spec, config, place, format_, None if script is None else base_dir / script)


def _rows_format(pipeline: Pipeline, name: str, base_dir: Path, data_dir: DataDir) -> Format | None:
    """The format of another table's rows, if those are the only records written to this topic."""
    writers = [each for each in pipeline.processors if each.target is not None and each.target.topic == name]
    if len(writers) != 1 or not passes_rows(pipeline, writers[0]):
        return None
    source = writers[0].source
    assert source is not None
    return RowsFormat(RowsConfig(**rows_config(table_topic(pipeline, source.topic, base_dir, data_dir).reader)))
