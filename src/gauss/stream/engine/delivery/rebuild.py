"""Checks that a rebuild may empty a table: every row must come from its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.model.errors import Rejected
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN

if TYPE_CHECKING:
    from gauss.tables.mapped_table import MappedTable


def refuse_rows_of_others(table: MappedTable, incs: list[int]) -> None:
    """Raises if a table contains rows of other incarnations, or rows without one."""
    try:
        others = table.store.others(table.target, incs)
    finally:
        table.store.close()
    shown = f'table "{table.target.attrs["table"]}" of topic "{table.name}" can\'t be emptied'
    if others is None:
        raise Rejected(
            f"{shown}: it has no columns {INC_COLUMN} and {OFFSET_COLUMN}, which identify the rows of this topic",
            hint="empty the table by SQL, then read everything again: gauss readers seek TOPIC PROCESSOR earliest",
        )
    if others:
        raise Rejected(
            f"{shown}: {others:,} of its rows were not written by this"
            f" topic in this data directory (their {INC_COLUMN} differs)",
            hint="remove those rows by SQL, or give the processor a target of its own",
        )
