"""The table that a topic wants: by its schema map, else a column per field, else blobs; with the two marks of a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.table import INC_COLUMN, OFFSET_COLUMN, Mapped
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping.defaults import TypeMap, default_target


@dataclass(frozen=True)
class Words:
    """How a kind of table calls its types."""

    whole: str
    """64-bit whole numbers: times, incarnations, offsets."""
    blob: str
    types: TypeMap


def wanted_table(
    attrs: dict[str, Any], source: SourceSchema | None, mapped: Mapped | None, words: Words, *, marked: bool
) -> TargetSchema:
    """Its columns; `marked` rows say where in the inbox they came from."""
    start = TargetSchema((), attrs)
    if mapped is not None:
        made = mapped(start)
    elif source is None:
        columns = (("ts_ms", words.whole), ("payload", words.blob))
        made = replace(start, fields=tuple(TargetField(name, FieldType(kind), name) for name, kind in columns))
    else:
        made = default_target(source, start, words.types, words.whole)
    if not marked:
        return made
    marks = tuple(TargetField(name, FieldType(words.whole), name) for name in (INC_COLUMN, OFFSET_COLUMN))
    return replace(made, fields=(*made.fields, *marks))
