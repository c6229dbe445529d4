"""Which differences between a live table and its wanted schema are resolved, according to `evolve`."""

from __future__ import annotations

from gauss.contracts.evolution import Change, Difference
from gauss.model.errors import ConfigError


def additions(differences: list[Difference]) -> list[str]:
    """The statements that add missing columns; ConfigError if the table differs in any other way."""
    refused = [found for found in differences if found.change not in (Change.ADD, Change.EXTRA)]
    if refused:
        shown = "; ".join(map(str, differences))  # on one line: some outputs show only the first
        statements = "; ".join(found.statement for found in refused if found.statement)
        raise ConfigError(
            f"the table differs from its schema in more than added columns: {shown}",
            hint=f"change it yourself: {statements}" if statements else "make a new table under another name",
        )
    return [found.statement for found in differences if found.change is Change.ADD]


def lacking_columns(differences: list[Difference], policy: str) -> tuple[list[str], list[str]]:
    """The columns that the table will lack, and the statements that add the others; ConfigError with the diff if the
    policy allows neither."""
    statements = additions(differences)
    added = [found.name for found in differences if found.change is Change.ADD]
    if policy == "evolve" or not added:
        return [], statements
    if policy == "freeze":
        shown = "; ".join(map(str, differences))
        raise ConfigError(
            f'the table lacks columns of its schema, and evolve = "freeze": {shown}',
            hint=f"change it yourself: {'; '.join(statements)}",
        )
    return added, []
