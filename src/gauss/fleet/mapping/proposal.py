"""A proposed table: the columns of samples, the sorting key, an example of a TTL."""

from __future__ import annotations

from typing import NamedTuple

from gauss.fleet.mapping.column import Mapping, MappingColumn
from gauss.fleet.mapping.infer import infer
from gauss.fleet.mapping.values import SeenFields

MOST_KEY = 3


class Proposal(NamedTuple):
    """A mapping, and what it does not say."""

    mapping: Mapping
    ttl: str | None
    """An example of a TTL. It is not part of the mapping, since it deletes rows."""
    ignored: tuple[str, ...]
    """Fields whose names no path can contain."""


def propose(seen: SeenFields) -> Proposal:
    """The mapping that fits all samples."""
    columns = infer(seen)
    times = [each for each in columns if _is_time(each)]
    mapping = Mapping(columns=columns, order_by=_key(columns))
    ttl = f"toDateTime({times[0].column}) + INTERVAL 90 DAY" if times else None
    return Proposal(mapping, ttl, seen.ignored)


def _is_time(column: MappingColumn) -> bool:
    return column.type.startswith("Date") and not column.nullable


def _key(columns: list[MappingColumn]) -> list[str]:
    """Columns with few values first, then the time, else an id: rows that are read together then lie together."""
    able = [each for each in columns if not each.nullable]
    few = [each.column for each in able if each.type.startswith("LowCardinality")]
    times = [each.column for each in able if _is_time(each)]
    ids = [each.column for each in able if each.column == "id" or each.column.endswith("_id")]
    return [*few[: MOST_KEY - 1], *(times or ids)[:1]]
