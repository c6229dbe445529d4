"""Dead letters: records that became no rows, with the reason and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from gauss.clients.database import Database
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import DEAD_LETTERS


class DeadLetter(NamedTuple):
    """A record that became no row."""

    offset: int
    stage: str
    """`read`, `filter`, `decode`, `map` or `insert`."""
    reason: str
    column: str
    detail: str
    data: bytes | None
    """The record as it was; None for a tombstone."""
    ts_ms: int


class Origin(NamedTuple):
    """The partition that records came from."""

    inc: int
    topic: str
    partition: int


class StoredLetter(NamedTuple):
    """A dead letter and where it came from."""

    origin: Origin
    letter: DeadLetter
    at: int


def add(connection: sa.Connection, pipeline_id: str, origin: Origin, letters: Sequence[DeadLetter]) -> None:
    """Stores letters in the transaction that advances behind their records. One per offset: the first stays."""
    if not letters:
        return
    place = {"pipeline_id": pipeline_id, **origin._asdict()}
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(DEAD_LETTERS).values(at=now_ms()).on_conflict_do_nothing()
    connection.execute(insert, [{**place, **letter._asdict()} for letter in letters])


class DeadLetters:
    """The dead letters of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, pipeline_id: str, *, limit: int = 100, reason: str | None = None) -> list[StoredLetter]:
        """The newest letters of a pipeline."""
        columns = DEAD_LETTERS.c
        query = sa.select(DEAD_LETTERS).where(columns.pipeline_id == pipeline_id)
        if reason is not None:
            query = query.where(columns.reason == reason)
        query = query.order_by(columns.at.desc(), columns.inc.desc(), columns.offset.desc()).limit(limit)
        with self._database.transaction() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            StoredLetter(
                Origin(*(row[name] for name in Origin._fields)),
                DeadLetter(*(row[name] for name in DeadLetter._fields)),
                row["at"],
            )
            for row in rows
        ]

    def discard(self, pipeline_id: str, places: Sequence[tuple[int, int]]) -> int:
        """Removes letters by incarnation and offset; returns how many there were."""
        key = sa.tuple_(DEAD_LETTERS.c.inc, DEAD_LETTERS.c.offset)
        where = (DEAD_LETTERS.c.pipeline_id == pipeline_id, key.in_(list(places)))
        with self._database.transaction() as connection:
            return int(connection.execute(DEAD_LETTERS.delete().where(*where)).rowcount)
