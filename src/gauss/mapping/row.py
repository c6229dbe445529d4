"""One record as named values with the type each came from, and its mapping to a table's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.errors import ConfigError

RECORD_TIME = frozenset({"ts_ms", "@ts_ms"})
"""Sources of a column that the record's own time fills. `ts_ms` does so unless the format has a field of that name."""


@dataclass(frozen=True)
class RowField:
    name: str
    value: Any
    source_type: FieldType
    """The type in the source. A mapping keeps it, so that a writer can choose a conversion by it."""


@dataclass(frozen=True)
class Row:
    """A decoded record, or the columns that a mapping made of it."""

    fields: tuple[RowField, ...]
    ts_ms: int


def row_of(values: dict[str, Any], schema: SourceSchema, ts_ms: int) -> Row:
    """The row of a record that a format's `decode` returned, with the types of the format's schema and the record's
    time."""
    return Row(tuple(RowField(each.name, values.get(each.name), each.field_type) for each in schema.fields), ts_ms)


def apply_mapping(row: Row, target: TargetSchema) -> Row:
    """The columns that the record fills, by the target's names and in its order. Columns without a source, whose values
    the table makes, are left out. Raises ConfigError for a column whose field the row does not have."""
    held = {field.name: field for field in row.fields}
    made = []
    for column, source in column_sources(SourceSchema(_types(row)), target):
        value = held[source.name].value if source.name in held else row.ts_ms
        made.append(RowField(column.name, value, source.field_type))
    return Row(tuple(made), row.ts_ms)


def column_sources(source: SourceSchema, target: TargetSchema) -> list[tuple[TargetField, SourceField]]:
    """The columns that a record fills, each with the field its value comes from; the record's time is an int64."""
    known = {field.name: field for field in source.fields}
    found = []
    for column in target.fields:
        if column.source is None:
            continue
        if column.source not in known and column.source not in RECORD_TIME:
            raise ConfigError(
                f'column "{column.name}" reads the unknown field "{column.source}"', hint=f"known: {', '.join(known)}"
            )
        found.append((column, known.get(column.source) or SourceField(column.source, FieldType("int64"))))
    return found


def _types(row: Row) -> tuple[SourceField, ...]:
    return tuple(SourceField(field.name, field.source_type) for field in row.fields)
