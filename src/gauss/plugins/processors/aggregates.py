"""Aggregates as a config writes them: `sum(.price)`. Light enough for `gauss check`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from gauss.model.names import is_internal

FUNCTIONS = ("count", "sum", "min", "max", "avg", "first", "last")
_CALL = re.compile(r"^\s*(\w+)\s*\(\s*(?:\*|\.?([\w@]+(?:\.[\w@]+)*))?\s*\)\s*$")


class Aggregate(NamedTuple):
    """A column of the result."""

    name: str
    function: str
    field: str
    """Dotted name; empty: `count()` of records."""


def parse(name: str, text: str) -> Aggregate:
    """An aggregate from its text; raises ValueError with what is expected."""
    found = _CALL.match(text)
    if found is None or found[1] not in FUNCTIONS or (not found[2] and found[1] != "count"):
        known = ", ".join(f"{each}(.field)" for each in FUNCTIONS)
        raise ValueError(f'{name}: expected count() or one of {known}; found "{text}"')
    return Aggregate(name, found[1], found[2] or "")


def aggregates(texts: dict[str, str]) -> list[Aggregate]:
    return [parse(name, text) for name, text in texts.items()]


def _judged(texts: dict[str, str]) -> dict[str, str]:
    aggregates(texts)
    return texts


Aggregates = Annotated[dict[str, str], Field(min_length=1), AfterValidator(_judged)]
"""Column → aggregate."""


def output_name(field: str) -> str:
    """The column of a key: `id` for `order.id`."""
    return field.removeprefix("$.").removeprefix(".").rpartition(".")[2]


def clashes(keys: Sequence[str], texts: dict[str, str], taken: tuple[str, ...]) -> list[str]:
    """Columns that the result would have twice."""
    names = [*(output_name(key) for key in keys), *texts]
    doubled = {name for name in names if names.count(name) > 1}
    faults = [f'"{name}" would be the name of two columns' for name in sorted(doubled)]
    return faults + [f'the name "{name}" is taken' for name in names if name in taken or is_internal(name)]
