"""The wanted schema of a table: by its schema map, else one column per field, else `(ts_ms, payload)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.table import Mapped
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping.defaults import TypeMap, default_target
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN


@dataclass(frozen=True)
class TypeNames:
    """The type names of a database system that every table needs."""

    whole: str
    """64-bit integers: times, incarnations, offsets."""
    blob: str
    types: TypeMap


def wanted_table(
    attrs: dict[str, Any], source: SourceSchema | None, mapped: Mapped | None, names: TypeNames, *, marked: bool
) -> TargetSchema:
    """The wanted columns; `marked` adds the incarnation and offset that each row came from."""
    start = TargetSchema((), attrs)
    if mapped is not None:
        made = mapped(start)
    elif source is None:
        columns = (("ts_ms", names.whole), ("payload", names.blob))
        made = replace(start, fields=tuple(TargetField(name, FieldType(kind), name) for name, kind in columns))
    else:
        made = default_target(source, start, names.types, names.whole)
    if not marked:
        return made
    marks = tuple(TargetField(name, FieldType(names.whole), name) for name in (INC_COLUMN, OFFSET_COLUMN))
    return replace(made, fields=(*made.fields, *marks))
