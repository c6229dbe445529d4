"""A table for people: its columns with their source fields, its DDL, and how the live table differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gauss.model.errors import GaussError
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.model.units import counted

if TYPE_CHECKING:
    from gauss.contracts.format import FieldType
    from gauss.tables.mapped_table import MappedTable


def columns(found: MappedTable) -> list[dict[str, Any]]:
    """The columns of a table, each with its source field, its DDL and how its values are converted."""
    converters = {column: how for column, _, how in found.columns().explain()}
    types = {each.name: each.field_type for each in found.source.fields}
    rows = []
    for field in found.target.fields:
        own = field.name in (INC_COLUMN, OFFSET_COLUMN)
        source = "" if own else field.source or ""
        kind = type_words(types[source]) if source in types else "the record's time" if source else ""
        rows.append(
            {
                "field": source,
                "type": "added by Gauss" if own else kind,
                "column": found.store.column(field),
                "converted": converters.get(field.name, ""),
            }
        )
    return rows


def type_words(field_type: FieldType) -> str:
    """`decimal(precision 18, scale 8)`"""
    attrs = ", ".join(f"{key} {_plain(value)}" for key, value in field_type.native.attrs.items())
    return f"{field_type.name}({attrs})" if attrs else field_type.name


def _plain(value: Any) -> str:
    name = getattr(value, "name", None) or (value.get("name") if isinstance(value, dict) else None)
    return str(name or value)


def live_differences(found: MappedTable) -> dict[str, Any]:
    """The differences from the live table, and a verdict in words. Closes the store's connection."""
    try:
        differences = found.store.differences(found.target)
    except GaussError as error:
        return {"differences": None, "verdict": f"not compared with the live table: {error.message}"}
    finally:
        found.store.close()
    if differences is None:
        return {"differences": None, "verdict": "the table does not exist yet: the first run creates it"}
    listed = [{"change": str(each), "statement": each.statement} for each in differences]
    policy = f'evolve = "{found.config.evolve}"'
    verdict = (
        f"{counted(len(listed), 'difference')} from the live table, {policy}" if listed else "the live table matches"
    )
    return {"differences": listed, "verdict": verdict}
