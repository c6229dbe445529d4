"""Target schemas: the columns and attributes of a table, filled in by a schema map and converted to DDL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError


@dataclass(frozen=True)
class TargetField:
    """A column: its native type, the source of its value, and its attributes in the table."""

    name: str
    field_type: FieldType
    source: str | None = None
    """The field of the decoded record. `None`: computed by the table (`default`, `materialized`, `generated`)."""
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetSchema:
    """A table: its columns, and `attrs` such as `table`, `engine`, `order_by`."""

    fields: tuple[TargetField, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)


def as_field_type(value: object) -> FieldType:
    """Parses a type of a schema or script: a FieldType, a name, or `{name, attrs}`."""
    if isinstance(value, FieldType):
        return value
    if isinstance(value, str):
        return FieldType(value)
    if isinstance(value, dict) and isinstance(value.get("name"), str) and not set(value) - {"name", "attrs"}:
        return FieldType(value["name"], dict(value.get("attrs") or {}))
    raise ConfigError(
        f"expected a type as a name or as {{name, attrs}}, found {value!r}",
        hint='write for example { name = "Decimal64", attrs = { scale = 8 } }',
    )


def field_type_dict(field_type: FieldType) -> dict[str, Any]:
    """A type as a value for scripts, including nested types."""
    return {"name": field_type.name, "attrs": {key: _plain(value) for key, value in field_type.attrs.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, FieldType):
        return field_type_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
