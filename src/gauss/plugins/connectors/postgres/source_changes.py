"""Reads a stream of pgoutput messages: rows become batches, commits become positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from gauss.clients.postgres import pgoutput
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.emitter import Emitter
from gauss.contracts.connector.errors import ConnectorError, ErrorScope
from gauss.contracts.connector.stream import OPERATION
from gauss.plugins.connectors.postgres.catalog import Column
from gauss.plugins.connectors.postgres.source_change_rows import (
    OPERATIONS,
    ChangeRows,
    Layout,
    change_rows,
    layout_of,
)
from gauss.plugins.connectors.postgres.source_chunk import cut, too_large
from gauss.plugins.connectors.postgres.source_read import ChunkSize, chunks
from gauss.plugins.connectors.postgres.source_rejects import no_text_value
from gauss.plugins.connectors.postgres.source_text import text_column
from gauss.plugins.connectors.postgres.source_toast import ToastLookup
from gauss.plugins.processors.pg_source.copy_stream import CopyRows

_HEAD_BYTES = 6
"""Before the message in a row of COPY with one column: number of columns, and length."""
_ROWS = np.array([pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE], np.uint8)
_CONTROL = np.array([pgoutput.BEGIN, pgoutput.COMMIT, pgoutput.RELATION, pgoutput.TRUNCATE], np.uint8)
_KNOWN = np.array([*_ROWS, *_CONTROL, *pgoutput.IGNORED], np.uint8)
_OPERATIONS = pa.array([str(each) for each in OPERATIONS])


@dataclass(frozen=True)
class ChangeSchema:
    """The columns of a stream of changes."""

    columns: Sequence[Column]
    key: Sequence[str]
    """What a delete has values of."""
    money_scale: int

    @property
    def arrow(self) -> pa.Schema:
        fields = [each.field.with_nullable(each.nullable or each.name not in self.key) for each in self.columns]
        return pa.schema([*fields, pa.field(OPERATION, pa.string(), nullable=False)])


@dataclass
class ChangeReader:
    """Emits the changes of messages. A transaction may be spread over batches; checkpoints lie between transactions."""

    emitter: Emitter
    schema: ChangeSchema
    lookup: ToastLookup
    cursor: Callable[[int], CursorValue]
    """The cursor of a position."""
    check_schema: Callable[[], None]
    """Raises ConnectorError if the table has other columns now."""
    position: int
    """Behind the last transaction that was emitted, and before the next one."""
    messages: int = 0
    marked: int = 0
    """The position of the last checkpoint."""

    def __post_init__(self) -> None:
        self.marked = self.position
        self._arrow = self.schema.arrow
        self._layouts: dict[int, Layout] = {}
        self._from = self.position
        self._skipping = False
        self._size = ChunkSize.of(self.emitter)

    def mark(self) -> None:
        """A checkpoint at the position."""
        self.emitter.checkpoint(self.cursor(self.position))
        self.marked = self.position

    def read(self, blocks: Iterator[CopyRows]) -> None:
        """Emits what lies behind the position. The messages begin with a transaction."""
        self._from, self._skipping = self.position, False
        self._layouts = {}
        for rows in chunks(blocks, self._size, self.emitter.fetched):
            self._read(rows)

    def _read(self, rows: CopyRows) -> None:
        body, places, ends = rows.body, rows.offsets[:-1] + _HEAD_BYTES, rows.offsets[1:]
        kinds = body[places]
        self.messages += len(rows)
        if len(unknown := kinds[~np.isin(kinds, _KNOWN)]):
            raise ConnectorError.internal("BAD_PGOUTPUT", f"Postgres sent an unknown message {chr(unknown[0])!r}")
        kept = self._kept(body, places, kinds)
        done = 0
        for at in np.flatnonzero((kinds == pgoutput.RELATION) | ((kinds == pgoutput.TRUNCATE) & kept)).tolist():
            self._emit_span(body, places[done:at], ends[done:at], kinds[done:at], kept[done:at])
            done = at + 1
            if kinds[at] == pgoutput.TRUNCATE:
                raise self._truncated()
            self._learn(body[places[at] : ends[at]].tobytes())
        self._emit_span(body, places[done:], ends[done:], kinds[done:], kept[done:])

    def _kept(self, body: np.ndarray, places: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Which messages belong to transactions behind the position; the others were emitted by an earlier run, but
        are not confirmed yet."""
        begins = np.flatnonzero(kinds == pgoutput.BEGIN)
        before = _positions(body, places[begins] + pgoutput.BEGIN_LSN_AT) < self._from
        owners = np.searchsorted(begins, np.arange(len(kinds)), side="right")
        skipped: np.ndarray = np.concatenate([[self._skipping], before])[owners]
        self._skipping = bool(skipped[-1])
        return ~skipped

    def _emit_span(
        self, body: np.ndarray, places: np.ndarray, ends: np.ndarray, kinds: np.ndarray, kept: np.ndarray
    ) -> None:
        """Emits messages without one about a relation; makes a checkpoint behind the last commit if it is time."""
        is_row = np.isin(kinds, _ROWS) & kept
        commits, done = np.flatnonzero((kinds == pgoutput.COMMIT) & kept), 0
        if len(commits):
            done = int(commits[-1])
            self._emit(body, places[:done][is_row[:done]], ends[:done][is_row[:done]])
            self.position = int(_positions(body, places[done : done + 1] + pgoutput.COMMIT_END_AT)[0])
            if self.emitter.due():
                self.mark()
        self._emit(body, places[done:][is_row[done:]], ends[done:][is_row[done:]])

    def _emit(self, body: np.ndarray, places: np.ndarray, ends: np.ndarray) -> None:
        """Emits messages of rows, by runs of the same relation."""
        if not len(places):
            return
        oids = np.ndarray((len(body) - 3,), ">u4", body, strides=(1,))[places + pgoutput.OID_AT]
        edges = [0, *(np.flatnonzero(oids[1:] != oids[:-1]) + 1).tolist(), len(oids)]
        for start, stop in pairwise(edges):
            began, layout = time.monotonic(), self._layouts.get(int(oids[start]))
            if layout is None:
                raise ConnectorError.internal("BAD_PGOUTPUT", "Postgres sent a change before its relation")
            rows = change_rows(body, places[start:stop], ends[start:stop], layout)
            self.emitter.decode_s += time.monotonic() - began
            for part in self.lookup.filled(rows):
                self.emitter.emit(self._batches(part), int(part.sizes.sum()))

    def _batches(self, rows: ChangeRows) -> Iterator[pa.RecordBatch]:
        """The rows in batches of the allowed size; those that can't be read are rejected."""
        host, limits = self.emitter.host, self.emitter.stream.limits
        most = min(limits.max_record_bytes, limits.max_batch_bytes)
        operations = _OPERATIONS.take(pa.array(rows.operations))
        errors = {
            number: too_large(int(rows.sizes[number]), most) for number in np.flatnonzero(rows.sizes > most).tolist()
        }
        arrays = []
        for column, pieces in zip(self.schema.columns, rows.columns, strict=True):
            values, odd = text_column(pieces, column.reading, self.schema.money_scale)
            arrays.append(values)
            for number in np.flatnonzero(odd).tolist() if odd is not None else ():
                errors.setdefault(number, no_text_value(column, pieces[number].as_py()))
        batch = pa.RecordBatch.from_arrays([*arrays, operations], schema=self._arrow)
        if errors:
            names = [each.name for each in self.schema.columns]
            for number, error in sorted(errors.items()):
                texts = [_shown(pieces[number].as_py()) for pieces in rows.columns]
                shown = pa.array([operations[number].as_py()])
                host.reject(pa.record_batch([*map(pa.array, texts), shown], names=[*names, OPERATION]), error)
            batch = batch.filter(pa.array(~np.isin(np.arange(len(rows)), list(errors))))
        yield from cut(batch, limits.max_batch_bytes, host)

    def _learn(self, message: bytes) -> None:
        """Notes the layout of a relation. It is the one at the time of the changes that follow: a column that was
        added since is null, one that was dropped since is left out."""
        found = pgoutput.parse_relation(message)
        self.check_schema()
        self._layouts[found.oid] = layout_of(found, [each.name for each in self.schema.columns], self.schema.key)

    def _truncated(self) -> ConnectorError:
        stream = self.emitter.stream.stream_name
        return ConnectorError.data(
            "TRUNCATED",
            f"{stream} was truncated, which is no change of single rows",
            hint=f"run `gauss syncs state reset {self.emitter.host.pipeline} {stream}`: the next run reads it anew",
            scope=ErrorScope.STREAM,
        )


def _positions(body: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Positions in the WAL at these places."""
    if len(body) < 8:
        return np.zeros(0, np.uint64)
    found: np.ndarray = np.ndarray((len(body) - 7,), ">u8", body, strides=(1,))[places]
    return found


def _shown(value: bytes | None) -> list[str | None]:
    return [None if value is None else value.decode(errors="replace")]
