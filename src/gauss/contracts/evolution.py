"""Differences between a live table and its wanted schema, and the statements that resolve them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Change(StrEnum):
    ADD = "add"
    """A column missing from the table. Adding it is safe."""
    EXTRA = "extra"
    """A column that only the table has. Inserts use its default."""
    TYPE = "type"
    DEFAULT = "default"
    TABLE = "table"
    """Engine, keys or settings of the table itself."""


@dataclass(frozen=True)
class Difference:
    change: Change
    name: str
    wanted: str
    live: str
    statement: str = ""
    """The statement that resolves it. Empty if the table must be recreated."""

    def __str__(self) -> str:
        if self.change is Change.ADD:
            return f"+ {self.name} {self.wanted}"
        if self.change is Change.EXTRA:
            return f"- {self.name} {self.live}"
        return f"~ {self.name}: {self.live} → {self.wanted}"
