"""Converts batches of records from one format to another, with the same selection of fields as format-convert."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import RecordFormat, SourceField
from gauss.contracts.format_batch import batched, decode_each, encode_good
from gauss.plugins.processors.fields import plain
from gauss.plugins.processors.layout import layout


class Unconverted(NamedTuple):
    """A record that can't be converted."""

    record: int
    """Its index in the batch."""
    reason: str
    detail: str
    stage: str
    """`decode` or `encode`"""


class Converted(NamedTuple):
    """Records in the output format, the index of each one's input record, and the records that failed."""

    records: pa.BinaryArray
    origins: np.ndarray
    bad: list[Unconverted]


class Conversion:
    """A conversion between two formats; raises ConfigError if the output has fields that the input lacks."""

    def __init__(self, read: RecordFormat, written: RecordFormat) -> None:
        self._read, self._written = batched(read), batched(written)
        self._layout = layout(self._read.schema(), self._written.schema(), {})
        self._fields = pa.schema([_marked(field) for field in self._layout.fields])
        # A format with several rows per record has a method for all of them.
        self._rows = getattr(self._read, "decode_rows", lambda data: [self._read.decode(data)])

    def convert(self, data: pa.BinaryArray) -> Converted:
        """Converts all rows of all records."""
        if not len(data):
            return Converted(data, np.zeros(0, np.int64), [])
        return self._by_record(data) if self._layout.carries else self._by_column(data)

    def _by_column(self, data: pa.BinaryArray) -> Converted:
        decoded = self._read.decode_batch(data, self._fields)
        bad = [Unconverted(*each, "decode") for each in decoded.bad]
        if not decoded.rows.num_rows:
            return Converted(pa.array([], pa.binary()), np.zeros(0, np.int64), bad)
        rows = pa.RecordBatch.from_arrays(decoded.rows.columns, schema=self._fields)
        places = {plain(name): place for place, name in enumerate(rows.schema.names)}
        chosen = rows.select([places[plain(name)] for name in self._layout.written])
        made = encode_good(self._written, chosen.rename_columns(list(self._layout.written)))
        bad += [Unconverted(int(decoded.good[row]), reason, detail, "encode") for row, reason, detail in made.bad]
        origins = decoded.good[made.good]
        if len(made.records) != len(origins):  # one record of all rows
            origins = origins[:1].repeat(len(made.records))
        return Converted(made.records, origins, bad)

    def _by_record(self, data: pa.BinaryArray) -> Converted:
        """Converts record by record, for formats without a schema."""
        found, good, unread = decode_each(self._rows, enumerate(data.to_pylist()))
        rows = [(index, row) for index, rows in zip(good, found, strict=True) for row in rows]
        records, kept, unwritten = decode_each(lambda pair: self._written.encode(pair[1]), enumerate(rows))
        bad = [Unconverted(*each, "decode") for each in unread]
        bad += [Unconverted(rows[place][0], reason, detail, "encode") for place, reason, detail in unwritten]
        return Converted(pa.array(records, pa.binary()), np.array([rows[place][0] for place in kept], np.int64), bad)


def _marked(field: SourceField) -> pa.Field:
    """A column; one that holds any value as JSON text has a mark for the encoder."""
    kind = field.field_type
    any_kind = "json" in (kind.name, kind.attrs.get("element"))
    mark = {b"gauss": b"json" if kind.name == "json" else b"json array"} if any_kind else None
    return pa.field(field.name, arrow_type(kind), metadata=mark)
