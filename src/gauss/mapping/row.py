"""One record as named values with the type each came from, and its mapping to a table's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.target import TargetSchema


@dataclass(frozen=True)
class RowField:
    name: str
    value: Any
    source_type: FieldType
    """The type in the source: kept through every renaming, so that a writer may choose by it."""


@dataclass(frozen=True)
class Row:
    fields: tuple[RowField, ...]


def row_of(values: dict[str, Any], schema: SourceSchema, ts_ms: int) -> Row:
    """What a format's `decode` gave, with its types, and the record's own time under `@ts_ms`."""
    fields = [RowField(field.name, values.get(field.name), field.field_type) for field in schema.fields]
    time = FieldType("int64")
    own = [] if any(field.name == "ts_ms" for field in fields) else [RowField("ts_ms", ts_ms, time)]
    return Row((*fields, *own, RowField("@ts_ms", ts_ms, time)))


def apply_mapping(row: Row, target: TargetSchema) -> Row:
    """Only the fields that a column names, under the columns' names and in their order. Columns without a source,
    whose values the table makes, are not in the result."""
    by_name = {field.name: field for field in row.fields}
    return Row(
        tuple(
            RowField(column.name, by_name[column.source].value, by_name[column.source].source_type)
            for column in target.fields
            if column.source is not None and column.source in by_name
        )
    )
