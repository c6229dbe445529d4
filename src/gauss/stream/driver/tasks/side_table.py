"""Lookup tables of tasks: read at the version of a batch, cached by each process, updated by changes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.engine.cursor_messages import Pinned
from gauss.clients.engine.cursors import RemoteCursor, refused
from gauss.clients.engine.positions import At, Ends
from gauss.contracts.cursor import Code, Mode, Program, Seq, Step
from gauss.contracts.format_batch import empty_rows
from gauss.model.errors import Collected, Rejected
from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.planning.refs import FieldRef, TableRef
from gauss.stream.driver.tasks.key_index import NONE, KeyIndex
from gauss.stream.driver.tasks.reading import FORGET, coalesced, engine, format_of

if TYPE_CHECKING:
    from gauss.clients.engine.client import EngineClient
    from gauss.contracts.format import Format, SourceField

KEPT_TABLES = 4
"""Maximum number of lookup tables that a process caches."""
STEP = Step(limit=1 << 20, max_bytes=4 << 20)
log = logging.getLogger(__name__)


class SideTable:
    """The decoded rows of a table. Changed rows are kept in a second table until there are many of them."""

    def __init__(self, format_: Format, fields: pa.Schema | None) -> None:
        """`fields`: the decoded fields; None: all fields of the rows, each value as JSON text."""
        self.at = At(0, 0)
        self._format = format_
        self._fields = pa.schema([]) if fields is None else fields
        self._any_field = fields is None
        self._index = KeyIndex()
        self._places = np.full(1, NONE, np.int64)
        self._base = self._fields.empty_table()
        self._newer = self._base

    def change(self, batch: pa.RecordBatch) -> None:
        """Applies change events in order."""
        keys, deleted, data = batch.column("key"), batch.column("deleted"), batch.column("data")
        if self._any_field:
            self._learn(data.filter(pc.invert(deleted)))
        decoded = self._format.decode_batch(data.filter(pc.invert(deleted)), self._fields)
        if decoded.bad:
            log.warning("%d rows of a lookup table can't be decoded and are ignored: %s", *_first(decoded.bad))
        numbers = self._index.put(keys)
        if self._index.count > len(self._places):
            room = np.full(self._index.count, NONE, np.int64)
            self._places = np.concatenate([self._places, room])
        alive = np.flatnonzero(~deleted.to_numpy(zero_copy_only=False))
        places = np.full(len(batch), NONE, np.int64)
        places[alive[decoded.good]] = len(self._base) + len(self._newer) + np.arange(len(decoded.rows))
        self._places[numbers] = places  # of several events of a key the last one wins
        rows = pa.Table.from_batches([decoded.rows])
        self._newer = pa.concat_tables([self._newer, rows], promote_options="default").combine_chunks()
        if len(self._newer) > max(len(self._base) // 4, 4_096):
            self._settle()

    def _learn(self, data: pa.BinaryArray) -> None:
        """Adds fields that no earlier row had."""
        known = set(self._fields.names)
        for record in data.to_pylist():
            if not known.issuperset(row := self._format.decode(record)):
                new = [FieldRef(name, "json").arrow() for name in row if name not in known]
                known.update(row)
                self._fields = pa.schema([*self._fields, *new])

    def _settle(self) -> None:
        """Compacts the rows: drops replaced and deleted ones and merges the rest into one table."""
        alive = np.flatnonzero(self._places[: self._index.count] >= 0)
        keys = self._index.keys().take(pa.array(alive))
        whole = pa.concat_tables([self._base, self._newer], promote_options="default")
        self._base = whole.take(pa.array(self._places[alive])).combine_chunks()
        self._newer = self._base.slice(0, 0)
        self._index = KeyIndex()
        self._index.put(keys)
        self._places = np.arange(max(len(keys), 1), dtype=np.int64)
        self._places[len(keys) :] = NONE

    def find(self, keys: pa.Array) -> tuple[pa.Array, pa.RecordBatch]:
        numbers = self._index.find(keys)
        places = np.where(numbers >= 0, self._places[numbers], NONE)
        found = places >= 0
        old = _take(self._base, np.where(found & (places < len(self._base)), places, NONE))
        if len(self._newer):
            newer = places >= len(self._base)
            new = _take(self._newer, np.where(newer, places - len(self._base), NONE))
            mask = pa.array(newer)
            old = {name: pc.if_else(mask, new[name], old[name]) if name in old else new[name] for name in new}
        if not old:
            return pa.array(found), empty_rows(len(keys))
        return pa.array(found), pa.RecordBatch.from_arrays(list(old.values()), names=list(old))


def _take(rows: pa.Table, places: np.ndarray) -> dict[str, pa.Array]:
    """The values of each column at the given places; null for -1."""
    chosen = pa.array(places, mask=places < 0)
    return {name: rows.column(name).combine_chunks().take(chosen) for name in rows.column_names}


def _first(bad: list[tuple[int, str, str]]) -> tuple[int, str]:
    return len(bad), bad[0][2]


_tables: OrderedDict[bytes, SideTable] = OrderedDict()
FORGET.append(_tables.clear)


def look_up(read: RangeRead, ref: TableRef, fields: list[SourceField] | None, at: At) -> SideTable:
    """The table at the version at which the batch was planned."""
    client = engine(read.flight)
    held = client.pinned(Pinned(read.processor, read.generation, ref.topic, at))
    key = msgspec.json.encode([read.flight, ref, None if fields is None else [repr(field) for field in fields]])
    table = _tables.pop(key, None)
    if table is None or not _moved_on(client, ref.topic, table, held):
        table = SideTable(format_of(ref.format), _schema(fields))
        for batch in _rows(client, ref.topic, Program(), held):
            table.change(batch)
        table.at = held
    _tables[key] = table
    while len(_tables) > KEPT_TABLES:
        _tables.popitem(last=False)
    return table


def _schema(fields: list[SourceField] | None) -> pa.Schema | None:
    if fields is None:
        return None
    return pa.schema([FieldRef(each.name, each.field_type.name, each.field_type.attrs).arrow() for each in fields])


def _moved_on(client: EngineClient, topic: str, table: SideTable, to: At) -> bool:
    """Applies the changes up to a version; returns False if they are unavailable or the version is older."""
    if table.at.inc != to.inc or table.at.off > to.off:
        return False
    if table.at.off < to.off:
        try:
            changes = list(_rows(client, topic, Program(Seq(table.at.off), Mode.LIVE), to))
        except (Collected, Rejected):
            return False
        for batch in changes:
            table.change(batch)
        table.at = to
    return True


def _rows(client: EngineClient, topic: str, program: Program, to: At) -> Iterator[pa.RecordBatch]:
    """The rows of a scan up to a version."""
    held = to.off if program.mode is Mode.SNAPSHOT else None
    with client.scan_cursor(topic, program, inc=to.inc, name="join", held=held) as cursor:
        yield from coalesced(_steps(cursor, to.off, live=program.mode is Mode.LIVE))


def _steps(cursor: RemoteCursor, version: int, *, live: bool) -> Iterator[pa.RecordBatch]:
    while not live or cursor.position < version:
        if (code := cursor.next(STEP, again=not live)) is not Code.OK:
            if live or code is not Code.INVALID:
                raise refused(code)
            return
        batch = cursor.read()[1]
        assert isinstance(batch, pa.RecordBatch)
        yield batch.filter(pc.less_equal(batch.column("version"), version)) if live else batch


@lru_cache(maxsize=16)
def versions_of(text: str) -> Ends:
    """The versions of the lookup tables of a range."""
    return msgspec.json.decode(text, type=Ends)
