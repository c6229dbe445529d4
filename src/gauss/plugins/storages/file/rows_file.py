"""The records of a segment as a table: an Arrow IPC file with the columns of the topic's format.

Readers of the topic still get the log, since a decoded and re-encoded record may have other bytes. A record that cannot
be decoded is in the file too, with its bytes in `data` and nulls elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from gauss.contracts.decode_budget import OverBudget
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import Decoded, Format, SourceSchema
from gauss.contracts.format_batch import batched
from gauss.model.batch import RECORD_SCHEMA
from gauss.plugins.processors.fields import plain
from gauss.plugins.storages.file.disk import create, sync_folder
from gauss.plugins.storages.file.segment import ROWS, Segment

BATCH_BYTES = 1 << 20


class RowsFile:
    """Writes segments as tables of one format."""

    def __init__(self, format_: Format, schema: SourceSchema) -> None:
        self._format = batched(format_)
        self._fields = pa.schema([pa.field(each.name, arrow_type(each.field_type)) for each in schema.fields])
        columns = [pa.field(plain(field.name), field.type) for field in self._fields]
        taken = {column.name for column in columns}
        # On a name conflict the field of the records keeps its name.
        own = {name: f"_{name}" if name in taken else name for name in RECORD_SCHEMA.names}
        self._schema = pa.schema(
            [
                pa.field(own["offset"], pa.int64()),
                pa.field(own["ts_ms"], pa.int64()),
                *columns,
                pa.field(own["data"], pa.binary()),
            ]
        )

    def write(self, segment: Segment) -> Path:
        """Writes the file of a finished segment atomically. Raises FileNotFoundError if the segment was removed in the
        meantime, Damaged if it cannot be read completely."""
        target = segment.path(ROWS)
        fresh = target.with_name(target.name + ".new")
        try:
            with create(fresh) as file:
                with pa.ipc.new_file(file, self._schema) as writer:
                    for batch in self._batches(segment):
                        writer.write_batch(batch)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        sync_folder(segment.folder)
        return target

    def _batches(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        position = segment.base
        while position < segment.end:
            for offset, chunk in segment.read(position, segment.end, BATCH_BYTES):
                records = chunk.batch(offset)
                yield from self._rows(records)
                position = offset + len(records)

    def _rows(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        while len(records):
            done = 0
            try:
                for part in self._format.decode_parts(records.column(2), self._fields):
                    yield self._table(records.slice(part.first, part.records), part.decoded)
                    done = part.first + part.records
                return
            except OverBudget:  # the next record is too large to decode: its bytes are kept
                none = pa.RecordBatch.from_pylist([], schema=self._fields)
                yield self._table(records.slice(done, 1), Decoded(none, np.zeros(0, np.int64), [(0, "", "")]))
                records = records.slice(done + 1)

    def _table(self, records: pa.RecordBatch, decoded: Decoded) -> pa.RecordBatch:
        """Rows in record order, with the bytes of records that cannot be decoded."""
        bad = np.array([number for number, _, _ in decoded.bad], dtype=np.int64)
        of_record = np.concatenate((np.asarray(decoded.good, dtype=np.int64), bad))
        order = pa.array(np.argsort(of_record, kind="stable"))
        place = pa.array(of_record).take(order)
        raw = records.column(2).take(pa.array(bad))
        columns = [
            records.column(0).take(place),
            records.column(1).take(place),
            *(
                pa.concat_arrays([column.cast(field.type), pa.nulls(len(bad), field.type)]).take(order)
                for column, field in zip(decoded.rows.columns, self._fields, strict=True)
            ),
            pa.concat_arrays([pa.nulls(len(of_record) - len(bad), pa.binary()), raw.cast(pa.binary())]).take(order),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
