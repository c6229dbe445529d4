"""Dead letters: records that became no rows, with the reason and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from gauss.clients.database import Database
from gauss.fleet.store import audit
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.letter_totals import MOST_BYTES, MOST_LETTERS, LetterTotals, all_totals, change, locked_totals
from gauss.fleet.store.parts import PART
from gauss.fleet.store.schema import DEAD_LETTERS
from gauss.model.errors import NotFound

KEPT_MS = 30 * 86_400_000
"""Older letters are removed, and counted."""
EXCERPT_BYTES = 500
"""Of each record in a list."""


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

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return 200 + len(self.detail) + len(self.data or b"")

    def cut(self, data: int, detail: int) -> DeadLetter:
        """The letter with so many bytes of the record and characters of the detail at most, which databases can keep:
        they take neither NUL nor half characters, and a detail may quote the record."""
        kept = None if self.data is None else self.data[:data]
        return self._replace(data=kept, detail=_text(self.detail[:detail]), column=_text(self.column))


class Origin(NamedTuple):
    """The partition that records came from."""

    inc: int
    topic: str
    partition: int


class StoredLetter(NamedTuple):
    """A dead letter and where it came from. In a list with the beginning of its record alone."""

    origin: Origin
    letter: DeadLetter
    at: int
    edited: bytes | None
    """What somebody has made of the record since."""
    edited_by: str | None
    size: int
    """Bytes of the record."""

    @property
    def newest(self) -> bytes | None:
        """The record as it is replayed."""
        return self.letter.data if self.edited is None else self.edited


def _text(text: str) -> str:
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


Place = tuple[int, int]
"""The incarnation and the offset of a letter."""


def add(connection: sa.Connection, pipeline_id: str, origin: Origin, letters: Sequence[DeadLetter]) -> None:
    """Stores letters in the transaction that advances behind their records. One per offset: the first stays. Those
    for which the pipeline has no room are counted."""
    if not letters or (totals := locked_totals(connection, pipeline_id)) is None:
        return
    kept = _fitting(totals, letters)
    sizes: list[int] = []
    if kept:
        place = {"pipeline_id": pipeline_id, **origin._asdict()}
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        insert = dialect.insert(DEAD_LETTERS).values(at=now_ms()).on_conflict_do_nothing().returning(_SIZE)
        sizes = list(connection.execute(insert, [{**place, **_storable(each)} for each in kept]).scalars())
    change(connection, pipeline_id, kept=len(sizes), bytes=sum(sizes), dropped=len(letters) - len(kept))


def _fitting(totals: LetterTotals, letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
    """The first of some letters, as many as a pipeline has room for."""
    size = totals.bytes
    for index, letter in enumerate(letters[: max(MOST_LETTERS - totals.kept, 0)]):
        size += len(letter.data or b"")
        if size > MOST_BYTES:
            return letters[:index]
    return letters[: max(MOST_LETTERS - totals.kept, 0)]


def _storable(letter: DeadLetter) -> dict[str, Any]:
    """The columns of a letter. Postgres has no text with NUL, and no database has halves of surrogate pairs."""
    texts = {name: getattr(letter, name) for name in ("stage", "reason", "column", "detail")}
    clean = {name: text.replace("\0", "\\0").encode(errors="replace").decode() for name, text in texts.items()}
    return {**letter._asdict(), **clean}


class DeadLetters:
    """The dead letters of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, pipeline_id: str, *, limit: int = 100, reason: str | None = None) -> list[StoredLetter]:
        """The newest letters of a pipeline, with the beginnings of their records."""
        columns = DEAD_LETTERS.c
        query = sa.select(*_EXCERPT).where(columns.pipeline_id == pipeline_id)
        if reason is not None:
            query = query.where(columns.reason == reason)
        query = query.order_by(columns.at.desc(), columns.inc.desc(), columns.offset.desc()).limit(limit)
        with self._database.transaction() as connection:
            return [_stored(row) for row in connection.execute(query).mappings()]

    def totals(self) -> dict[str, LetterTotals]:
        """How many letters each pipeline has."""
        with self._database.transaction() as connection:
            return all_totals(connection)

    def at(self, pipeline_id: str, places: Sequence[Place]) -> Sequence[StoredLetter]:
        """The letters at some places, in the order of their offsets; those that are gone are left out."""
        query = sa.select(*_WHOLE).where(*_at(pipeline_id, places))
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(DEAD_LETTERS.c.inc, DEAD_LETTERS.c.offset)).mappings()
            return [_stored(row) for row in rows]

    def edit(self, pipeline_id: str, place: Place, data: bytes | None, who: str) -> StoredLetter:
        """Sets what is replayed instead of the record; None: the record as it was, which is kept in any case."""
        values = {"edited": data, "edited_by": None if data is None else who}
        with self._database.transaction() as connection:
            update = DEAD_LETTERS.update().where(*_at(pipeline_id, [place])).values(**values).returning(*_WHOLE)
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
            _remove(connection, pipeline_id, (*_at(pipeline_id, [place]), same))
            audit.record(connection, who, "letter.replay", pipeline_id, inc=place[0], offset=place[1])

    def discard(self, pipeline_id: str, places: Sequence[Place], who: str) -> int:
        """Removes letters; returns how many there were."""
        with self._database.transaction() as connection:
            gone = _remove(connection, pipeline_id, _at(pipeline_id, places))
            audit.record(connection, who, "letters.discard", pipeline_id, count=gone)
            return gone

    def expire(self) -> int:
        """Removes letters that are older than a pipeline keeps them; returns how many there were."""
        gone = 0
        old = DEAD_LETTERS.c.at < now_ms() - KEPT_MS
        for pipeline_id, totals in self.totals().items():
            mine = DEAD_LETTERS.c.pipeline_id == pipeline_id
            oldest = (
                sa.select(DEAD_LETTERS.c.inc, DEAD_LETTERS.c.offset)
                .where(mine, old)
                .order_by(DEAD_LETTERS.c.at)
                .limit(PART)
            )
            more = totals.kept > 0
            while more:
                with self._database.transaction() as connection:
                    removed = _remove(connection, pipeline_id, (mine, old, _KEY.in_(oldest)))
                    change(connection, pipeline_id, expired=removed)
                gone, more = gone + removed, removed == PART
        return gone


_KEY = sa.tuple_(DEAD_LETTERS.c.inc, DEAD_LETTERS.c.offset)
_SIZE = sa.func.coalesce(sa.func.length(DEAD_LETTERS.c.data), 0)
_WHOLE = (*DEAD_LETTERS.c, _SIZE.label("size"))
_CUT = [
    sa.func.substr(DEAD_LETTERS.c[name], 1, EXCERPT_BYTES, type_=sa.LargeBinary).label(name)
    for name in ("data", "edited")
]
_EXCERPT = (*(each for each in DEAD_LETTERS.c if each.name not in ("data", "edited")), *_CUT, _SIZE.label("size"))


def _remove(connection: sa.Connection, pipeline_id: str, where: Sequence[sa.ColumnElement[bool]]) -> int:
    """Removes letters; returns how many there were."""
    locked_totals(connection, pipeline_id)
    sizes = connection.execute(DEAD_LETTERS.delete().where(*where).returning(_SIZE)).scalars().all()
    change(connection, pipeline_id, kept=-len(sizes), bytes=-sum(sizes))
    return len(sizes)


def _at(pipeline_id: str, places: Sequence[Place]) -> tuple[sa.ColumnElement[bool], ...]:
    return DEAD_LETTERS.c.pipeline_id == pipeline_id, _KEY.in_(list(places))


def _stored(row: Any) -> StoredLetter:
    origin = Origin(*(row[name] for name in Origin._fields))
    letter = DeadLetter(*(row[name] for name in DeadLetter._fields))
    return StoredLetter(origin, letter, row["at"], row["edited"], row["edited_by"], row["size"])
