"""What a table's `evolve` makes of the columns it lacks."""

from __future__ import annotations

from gauss.clients.evolution import Change, Difference, additions
from gauss.model.errors import ConfigError


def lacking_columns(differences: list[Difference], policy: str) -> tuple[list[str], list[str]]:
    """The columns that the table will lack, and the statements that add the others; ConfigError with the diff when
    the policy allows neither."""
    statements = additions(differences)  # refuses whatever is more than a column
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
