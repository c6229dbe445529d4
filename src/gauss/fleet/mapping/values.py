"""What was seen of a field in samples: kinds of values, their ranges and texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

MOST_DEPTH = 6
"""Deeper objects are kept as JSON text."""
MOST_DISTINCT = 200
_PLAIN = re.compile(r'[^.$\[\]"`]+')
"""A name that paths can contain."""


@dataclass
class Seen:
    """The values of one field."""

    records: int = 0
    """Records that have the field, null included."""
    nulls: int = 0
    kinds: set[str] = field(default_factory=set)
    """`bool`, `int`, `decimal`, `float`, `text`, `bytes`, `array` and `object`."""
    numbers: list[int | Decimal] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    elements: Seen | None = None
    """The elements of arrays, all together."""
    distinct: set[str] = field(default_factory=set)

    def add(self, value: Any) -> None:
        self.records += 1
        match value:
            case None:
                self.nulls += 1
            case bool():
                self.kinds.add("bool")
            case int():
                self.kinds.add("int")
                self.numbers.append(value)
            case Decimal():
                self.kinds.add("decimal")
                self.numbers.append(value)
            case float():
                self.kinds.add("float")
            case str():
                self.kinds.add("text")
                self.texts.append(value)
                if len(self.distinct) <= MOST_DISTINCT:
                    self.distinct.add(value)
            case list() | tuple():
                self.kinds.add("array")
                self.elements = self.elements or Seen()
                for each in value:
                    self.elements.add(each)
            case dict():
                self.kinds.add("object")
            case _:
                self.kinds.add("bytes" if isinstance(value, bytes) else type(value).__name__)

    @property
    def values(self) -> int:
        return self.records - self.nulls


@dataclass(frozen=True)
class SeenFields:
    """The fields of all samples, by path, in the order in which they were first seen."""

    records: int
    fields: dict[str, Seen]
    ignored: tuple[str, ...]
    """Names that no path can contain, such as `"a.b"`."""


def collect(records: list[dict[str, Any]]) -> SeenFields:
    """Flattens objects to paths. An object whose members no path can name, or that is nested too deep, and one that is
    at times another kind of value, are values themselves."""
    whole = _whole_objects(records)
    found: dict[str, Seen] = {}
    ignored: dict[str, None] = {}
    for record in records:
        for path, value in _leaves(record, "", whole, ignored):
            found.setdefault(path, Seen()).add(value)
    return SeenFields(len(records), found, tuple(ignored))


def _leaves(
    record: dict[str, Any], before: str, whole: set[str], ignored: dict[str, None]
) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if not before and not _PLAIN.fullmatch(name):
            ignored[name] = None
            continue
        path = f"{before}.{name}" if before else name
        if isinstance(value, dict) and path not in whole:
            yield from _leaves(value, path, whole, ignored)
        else:
            yield path, value


def _whole_objects(records: list[dict[str, Any]]) -> set[str]:
    """The paths of objects that are not flattened."""
    found: set[str] = set()
    objects: set[str] = set()
    others: set[str] = set()

    def look(record: dict[str, Any], before: str, depth: int) -> None:
        for name, value in record.items():
            path = f"{before}.{name}" if before else name
            if isinstance(value, dict):
                objects.add(path)
                plain = all(isinstance(each, str) and _PLAIN.fullmatch(each) for each in value)
                if not value or not plain or depth >= MOST_DEPTH:
                    found.add(path)
                else:
                    look(value, path, depth + 1)
            elif value is not None:
                others.add(path)

    for record in records:
        look(record, "", 1)
    return found | (objects & others)
