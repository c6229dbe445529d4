"""How a table differs from what is wanted, and the statements that would end the difference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gauss.model.errors import ConfigError


class Change(StrEnum):
    ADD = "add"
    """A wanted column that the table lacks: safe to do by oneself."""
    EXTRA = "extra"
    """A column that only the table has; writers leave it to its default."""
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
    """What would do it; empty when only a new table would."""

    def __str__(self) -> str:
        if self.change is Change.ADD:
            return f"+ {self.name} {self.wanted}"
        if self.change is Change.EXTRA:
            return f"- {self.name} {self.live}"
        return f"~ {self.name}: {self.live} → {self.wanted}"


def additions(differences: list[Difference]) -> list[str]:
    """The statements that `evolve` runs; ConfigError with the whole diff when more than columns is to be changed."""
    refused = [found for found in differences if found.change not in (Change.ADD, Change.EXTRA)]
    if refused:
        shown = "; ".join(map(str, differences))  # of a message only the first line gets everywhere
        statements = "; ".join(found.statement for found in refused if found.statement)
        raise ConfigError(
            f"the table differs from its schema in more than added columns: {shown}",
            hint=f"change it yourself: {statements}" if statements else "make a new table under another name",
        )
    return [found.statement for found in differences if found.change is Change.ADD]
