"""Adds the event-time field to the fields that are decoded."""

from __future__ import annotations

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.model.errors import ConfigError


def with_event_time(fields: list[SourceField], name: str, schema: SourceSchema | None) -> list[SourceField]:
    """The fields and the event-time field; without a schema that is an int64 in ms."""
    own = next((field for field in fields if field.name.removeprefix("$.") == name), None)
    if schema is not None:
        found = next((field for field in schema.fields if field.name.removeprefix("$.") == name), None)
        if found is None:
            raise ConfigError(f'event_time_field: the input format has no field "{name}"')
        return fields if own is not None else [*fields, found]
    others = [field for field in fields if field is not own]
    return [*others, SourceField(f"$.{name}" if "." in name else name, FieldType("int64"))]
