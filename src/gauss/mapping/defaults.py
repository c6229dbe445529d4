"""The default columns of a table: the record's time, then every field under a plain name."""

from __future__ import annotations

import re
from collections.abc import Callable

from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.target import TargetField, TargetSchema, as_field_type
from gauss.model.errors import ConfigError

TypeMap = Callable[[FieldType], FieldType | None]
"""The column type of a system for a field type; None if it has none (`clients/<system>/type_map.py`)."""


def default_target(source: SourceSchema, target: TargetSchema, type_map: TypeMap, time_type: str) -> TargetSchema:
    """`ts_ms` and one column per field, in order."""
    fields = []
    if not any(field.name in {"ts_ms", "$.ts_ms"} for field in source.fields):
        fields.append(TargetField("ts_ms", FieldType(time_type), "ts_ms"))
    taken = {field.name for field in fields}
    clauses = " ".join(str(text) for key, text in target.attrs.items() if key != "table")
    named = {"ts_ms", *re.findall(r"\w+", clauses)}
    for field in source.fields:
        made = type_map(field.field_type)
        if made is None:
            raise ConfigError(
                f'field "{field.name}" has the type {field.field_type.name}, which has no column type here',
                hint="write a schema map that leaves it out or gives it a type",
            )
        name = column_name(field.name)
        if name in taken:
            raise ConfigError(
                f'two fields would become the column "{name}", the second is "{field.name}"',
                hint="write a schema map that names them apart",
            )
        taken.add(name)
        if made.name == "Nullable" and name in named:  # no clause of a table (ORDER BY, PARTITION BY, …) takes nulls
            made = as_field_type(made.attrs["inner"])
        fields.append(TargetField(name, made, field.name))
    return TargetSchema(tuple(fields), target.attrs)


def column_name(field: str) -> str:
    """A plain name for a field or a path: `$.order.items[*].sku` becomes `order_items_sku`."""
    return re.sub(r"[^\w]+", "_", field.removeprefix("$.").replace("[*]", "")).strip("_") or "field"
