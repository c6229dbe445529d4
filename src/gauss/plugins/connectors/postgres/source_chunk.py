"""Rows on their way from COPY to a batch: decoded to Arrow, or left as they are for the opaque lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host, Opaque
from gauss.contracts.connector.stream import StreamLimits
from gauss.plugins.connectors.postgres.catalog import Column
from gauss.plugins.connectors.postgres.source_decode import Pieces, column, decode, locate
from gauss.plugins.connectors.postgres.source_position import special_text
from gauss.plugins.connectors.postgres.source_rejects import no_value, reject_row
from gauss.plugins.processors.pg_source.copy_stream import CopyRows


class Chunk:
    """Some rows in their order. `position`: the columns that make a position, and which rows have one."""

    def __init__(self, rows: CopyRows, columns: Sequence[Column], places: Sequence[int], opaque: str) -> None:
        """`places`: which columns make a position."""
        self.rows, self._columns, self._opaque = rows, columns, opaque
        self._bad: dict[int, np.ndarray] = {}
        self._special: dict[str, dict[int, str | None]] = {}
        if opaque:
            found = locate(rows, len(columns)) if places else []
            made = {place: column(found[place], columns[place].reading) for place in places}
            self.position = {columns[place].name: values for place, (values, _) in made.items()}
            for place, (_, bad) in made.items():
                if bad is None or not bad.any():
                    continue
                texts = _special_texts(found[place], columns[place].reading.kind, bad)
                # A key can have any value that is text; behind a cursor of infinity nothing would ever be read.
                if place == places[0] or None in texts.values():
                    self._bad[place] = bad
                else:
                    self._special[columns[place].name] = texts
        else:
            decoded = decode(rows, [each.reading for each in columns])
            self._batch = pa.RecordBatch.from_arrays(
                decoded.columns, schema=pa.schema([each.field.with_nullable(True) for each in columns])
            )
            self._schema = pa.schema([each.field for each in columns])
            self._bad = decoded.bad
            self.position = {columns[place].name: decoded.columns[place] for place in places}
        odd = [self._bad[place] for place in places if place in self._bad]
        self._unplaced = np.logical_or.reduce(odd) if odd else None

    def __len__(self) -> int:
        return len(self.rows)

    def placed(self) -> tuple[int, int]:
        """The first and last row that have a position; (0, -1) if none has. Values without one sort before or behind
        all others."""
        if self._unplaced is None:
            return 0, len(self) - 1
        there = np.flatnonzero(~self._unplaced)
        return (int(there[0]), int(there[-1])) if len(there) else (0, -1)

    def last_placed(self) -> int:
        """The last row that has a position; -1 if none has."""
        return self.placed()[1]

    def row(self, number: int) -> dict[str, pa.Scalar]:
        """The position's columns in a row."""
        found = {name: values[number] for name, values in self.position.items()}
        special = {name: texts[number] for name, texts in self._special.items() if number in texts}
        return {**found, **{name: pa.scalar(text) for name, text in special.items()}}

    def batches(self, start: int, stop: int, limits: StreamLimits, host: Host) -> Iterator[pa.RecordBatch | Opaque]:
        """The rows from `start` to `stop` in batches of the allowed size; rows that can't be read are rejected."""
        good = np.ones(stop - start, bool)
        sizes = np.diff(self.rows.offsets[start : stop + 1])
        most = min(limits.max_record_bytes, limits.max_batch_bytes)
        for number in np.flatnonzero(sizes > most).tolist():
            good[number] = False
            self._reject(start + number, host, too_large(int(sizes[number]), most))
        bad = {place: odd[start:stop] for place, odd in self._bad.items()}
        if bad:
            for number in np.flatnonzero(np.logical_or.reduce(list(bad.values())) & good).tolist():
                good[number] = False
                place = next(place for place, odd in bad.items() if odd[number])
                row = self.rows.part(start + number, start + number + 1)
                self._reject(start + number, host, no_value(row, self._columns, place))
        if self._opaque:
            yield from self._raw(start, good, limits.max_batch_bytes)
            return
        batch = self._batch.slice(start, stop - start)
        if not good.all():
            batch = batch.filter(pa.array(good))
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        yield from cut(batch, limits.max_batch_bytes, host)

    def _raw(self, start: int, good: np.ndarray, most: int) -> Iterator[Opaque]:
        """Runs of good rows as payloads."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]).astype(np.int8)))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            at, stop = start + begin, start + end
            while at < stop:
                room = self.rows.offsets[at] + most
                after = int(np.searchsorted(self.rows.offsets[: stop + 1], room, side="right")) - 1
                part = self.rows.part(at, max(after, at + 1))
                yield Opaque(self._opaque, part.body.tobytes(), len(part))
                at += len(part)

    def _reject(self, number: int, host: Host, error: ConnectorError) -> None:
        if self._opaque:
            host.reject(pa.record_batch({"copy_row": pa.array([self.rows.row(number)])}), error)
            return
        reject_row(self.rows.part(number, number + 1), self._columns, host, error)


def _special_texts(pieces: Pieces, kind: str, odd: np.ndarray) -> dict[int, str | None]:
    """By row: the text of a value without an Arrow value."""
    found = {}
    for number in np.flatnonzero(odd).tolist():
        start = int(pieces.starts[number])
        found[number] = special_text(pieces.body[start : start + int(pieces.lengths[number])].tobytes(), kind)
    return found


def cut(batch: pa.RecordBatch, most: int, host: Host) -> Iterator[pa.RecordBatch]:
    """The batch in halves, until each is small enough."""
    if not batch.num_rows:
        return
    if batch.nbytes <= most:
        yield batch
    elif batch.num_rows == 1:
        host.reject(batch, too_large(batch.nbytes, most))
    else:
        middle = batch.num_rows // 2
        yield from cut(batch.slice(0, middle), most, host)
        yield from cut(batch.slice(middle), most, host)


def too_large(size: int, most: int) -> ConnectorError:
    """The error of a row above the limits."""
    return ConnectorError.data(
        "RECORD_TOO_LARGE",
        f"a record has at most {most:,} bytes, found {size:,}",
        hint="raise max_record_bytes and max_batch_bytes in limits, or leave out its large columns",
    )
