"""Dead letters: records that became no rows, with the reason and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from gauss.clients.database import Database
from gauss.fleet.store import audit
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import DEAD_LETTERS
from gauss.model.errors import NotFound


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
    edited: bytes | None
    """What somebody has made of the record since."""
    edited_by: str | None

    @property
    def newest(self) -> bytes | None:
        """The record as it is replayed."""
        return self.letter.data if self.edited is None else self.edited


Place = tuple[int, int]
"""The incarnation and the offset of a letter."""


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
            return [_stored(row) for row in connection.execute(query).mappings()]

    def at(self, pipeline_id: str, places: Sequence[Place]) -> Sequence[StoredLetter]:
        """The letters at some places, in the order of their offsets; those that are gone are left out."""
        query = sa.select(DEAD_LETTERS).where(*_at(pipeline_id, places))
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(DEAD_LETTERS.c.inc, DEAD_LETTERS.c.offset)).mappings()
            return [_stored(row) for row in rows]

    def edit(self, pipeline_id: str, place: Place, data: bytes | None, who: str) -> StoredLetter:
        """Sets what is replayed instead of the record; None: the record as it was, which is kept in any case."""
        values = {"edited": data, "edited_by": None if data is None else who}
        with self._database.transaction() as connection:
            update = DEAD_LETTERS.update().where(*_at(pipeline_id, [place])).values(**values).returning(DEAD_LETTERS)
            row = connection.execute(update).mappings().first()
            if row is None:
                raise NotFound(f"no dead letter at offset {place[1]}", hint="it was replayed or discarded")
            audit.record(connection, who, "letter.edit", pipeline_id, inc=place[0], offset=place[1])
            return _stored(row)

    def replayed(self, pipeline_id: str, letter: StoredLetter, who: str) -> None:
        """Removes a letter whose record has become a row, unless it was edited meanwhile."""
        place = (letter.origin.inc, letter.letter.offset)
        same = DEAD_LETTERS.c.edited.is_not_distinct_from(letter.edited)
        with self._database.transaction() as connection:
            connection.execute(DEAD_LETTERS.delete().where(*_at(pipeline_id, [place]), same))
            audit.record(connection, who, "letter.replay", pipeline_id, inc=place[0], offset=place[1])

    def discard(self, pipeline_id: str, places: Sequence[Place], who: str) -> int:
        """Removes letters; returns how many there were."""
        with self._database.transaction() as connection:
            gone = int(connection.execute(DEAD_LETTERS.delete().where(*_at(pipeline_id, places))).rowcount)
            audit.record(connection, who, "letters.discard", pipeline_id, count=gone)
            return gone


def _at(pipeline_id: str, places: Sequence[Place]) -> tuple[sa.ColumnElement[bool], ...]:
    key = sa.tuple_(DEAD_LETTERS.c.inc, DEAD_LETTERS.c.offset)
    return DEAD_LETTERS.c.pipeline_id == pipeline_id, key.in_(list(places))


def _stored(row: Any) -> StoredLetter:
    origin = Origin(*(row[name] for name in Origin._fields))
    letter = DeadLetter(*(row[name] for name in DeadLetter._fields))
    return StoredLetter(origin, letter, row["at"], row["edited"], row["edited_by"])
