"""Whether a table may be emptied by a rebuild: only if every row in it is known to come from its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.model.errors import Rejected
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN

if TYPE_CHECKING:
    from gauss.tables.mapped_table import MappedTable


def refuse_rows_of_others(table: MappedTable, incs: list[int]) -> None:
    """Raises if a table holds rows of other incarnations than these, or rows that do not tell theirs."""
    try:
        others = table.store.others(table.target, incs)
    finally:
        table.store.close()
    shown = f'table "{table.target.attrs["table"]}" of topic "{table.name}" can\'t be emptied'
    if others is None:
        raise Rejected(
            f"{shown}: its rows have no {INC_COLUMN} and {OFFSET_COLUMN},"
            " so it is not known which of them this topic wrote",
            hint="empty the table by SQL, then read everything again: gauss readers seek TOPIC PROCESSOR earliest",
        )
    if others:
        raise Rejected(
            f"{shown}: {others:,} of its rows were not written by this"
            f" topic in this data directory ({INC_COLUMN} is another)",
            hint="remove those rows by SQL, or give the processor a target of its own",
        )
