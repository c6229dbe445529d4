"""How many dead letters each pipeline has. A topic of bad records must not fill the store of the whole fleet."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from gauss.fleet.store.schema import LETTER_TOTALS, PIPELINES

MOST_LETTERS = 100_000
"""Of a pipeline. Later ones are counted, and not kept."""
MOST_BYTES = 1 << 30
"""Of their records together."""
_RECORD_BYTES = 1 << 20
"""The most that is kept of one record."""


class LetterTotals(NamedTuple):
    """The dead letters of one pipeline."""

    kept: int = 0
    bytes: int = 0
    dropped: int = 0
    """Those that came while the pipeline had as many as are kept."""
    expired: int = 0
    """Those that were removed because of their age."""

    @property
    def is_full(self) -> bool:
        return self.kept >= MOST_LETTERS or self.bytes > MOST_BYTES - _RECORD_BYTES


def locked_totals(connection: sa.Connection, pipeline_id: str) -> LetterTotals | None:
    """The totals of a pipeline, which no other transaction changes meanwhile; None if it was deleted. Whoever adds or
    removes letters locks first the pipeline, then its totals, then the letters, so that no two wait for each other."""
    lock = sa.select(PIPELINES.c.id).where(PIPELINES.c.id == pipeline_id).with_for_update(read=True, key_share=True)
    if connection.execute(lock).first() is None:
        return None
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    first = dialect.insert(LETTER_TOTALS).values(pipeline_id=pipeline_id, **LetterTotals()._asdict())
    connection.execute(first.on_conflict_do_nothing())
    mine = LETTER_TOTALS.c.pipeline_id == pipeline_id
    return LetterTotals(*connection.execute(sa.select(*_COLUMNS).where(mine).with_for_update()).one())


def change(connection: sa.Connection, pipeline_id: str, **by: int) -> None:
    """Adds to the totals."""
    values = {name: LETTER_TOTALS.c[name] + number for name, number in by.items()}
    connection.execute(LETTER_TOTALS.update().where(LETTER_TOTALS.c.pipeline_id == pipeline_id).values(**values))


def all_totals(connection: sa.Connection) -> dict[str, LetterTotals]:
    """By pipeline; one that never had a letter is left out."""
    rows = connection.execute(sa.select(LETTER_TOTALS.c.pipeline_id, *_COLUMNS))
    return {row[0]: LetterTotals(*row[1:]) for row in rows}


_COLUMNS = [LETTER_TOTALS.c[name] for name in LetterTotals._fields]
